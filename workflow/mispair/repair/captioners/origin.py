"""Provenance of captions: captioner, revision, prompt, decoding and libraries."""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mispair.core.devices import device_name
from mispair.core.provenance import fingerprint, sampled_digest, versions
from mispair.repair.captioners.faults import REASONS, Caption
from mispair.repair.captioners.functions import module_of
from mispair.repair.captioners.kinds import FUNCTION

if TYPE_CHECKING:
    from mispair.repair.captioners.held_out import HeldOut
    from mispair.repair.captioners.recaption_settings import Settings

LIBRARIES = ("tokenizers", "transformers")
"""Libraries of captioners that `mispair.core.provenance` does not list."""

EXAMPLES = 3
"""Refused captions that the record shows for each reason."""


def revision_of(settings: Settings) -> str:
    """Return the revision of the weights, table or code of a captioner that is not trained."""
    if settings.kind is FUNCTION:
        source = getattr(module_of(settings.captioner), "__file__", None)
        return fingerprint([Path(source).read_bytes()]) if source else "unknown"
    model, paths = str(settings.model), settings.captioner_files()
    if not paths:
        return model.partition("@")[2]
    inside = Path(model).is_dir()
    names = [os.path.relpath(path, model) if inside else Path(path).name for path in paths]
    digests = [sampled_digest(Path(path)) for path in paths]
    return fingerprint(part for pair in zip(names, digests, strict=True) for part in pair)


def origin(
    settings: Settings, revision: str, pairs: Sequence[str], held_out: HeldOut | None = None
) -> dict[str, str]:
    """Return the metadata of a table of captions; `pairs` are the keys of its pairs."""
    tested = {} if held_out is None else {"held_out": json.dumps(asdict(held_out), sort_keys=True)}
    libraries = versions() | {name: importlib.metadata.version(name) for name in LIBRARIES}
    how: dict[str, Any] = settings.model_dump(include={"candidates", "seed", "max_words"})
    how["method"] = settings.decoding
    if settings.decoding == "nucleus":
        how |= settings.model_dump(include={"top_p", "temperature"})
    return {
        "captioner": settings.captioner,
        "model": str(settings.model),
        "revision": revision,
        "prompt": settings.prompt,
        "decoding": json.dumps(how, sort_keys=True),
        "versions": json.dumps(libraries, sort_keys=True),
        "pairs": fingerprint(sorted(pairs)),
        **tested,
    }


def record(
    captions: Sequence[Caption], resumed: int, seconds: dict[str, float], device: str, **more: Any
) -> dict[str, Any]:
    """Return the record of a job: counts, times and examples of refused captions, for JSON.

    Parameters
    ----------
    captions : sequence of Caption
        Of all pairs.
    resumed : int
        How many of them an earlier job had written.
    seconds : dict
        Of ``training``, if there was any, and of ``captions``.
    device : str
        ``cpu`` or ``cuda``.
    **more
        Further entries.
    """
    counts = Counter(caption.reason for caption in captions)
    written = len(captions) - resumed
    rate = written / seconds["captions"] if seconds["captions"] else 0.0
    return {
        "device": device_name(device),
        "captions": len(captions),
        "usable": counts[None],
        "resumed": resumed,
        "reasons": {reason: counts[reason] for reason in REASONS},
        "examples": {
            reason: [c.text for c in captions if c.reason == reason and c.text][:EXAMPLES]
            for reason in REASONS
        },
        "seconds": seconds,
        "captions_per_s": rate,
        **more,
    }
