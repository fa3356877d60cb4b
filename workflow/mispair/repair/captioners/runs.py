"""One job of a captioner: from its settings and files to checked captions and their provenance."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

import mispair.repair.captioners as package
from mispair.core.devices import choose_device, device_name
from mispair.core.files import UserError
from mispair.core.progress import Progress
from mispair.core.provenance import file_digest, fingerprint, sampled_digest, versions
from mispair.pairs.index.image_list import by_name, locations
from mispair.pairs.shards.staging import staged
from mispair.pretraining.settings import TOWERS_FILE
from mispair.repair.captioners import sources
from mispair.repair.captioners.faults import (
    NOT_BETTER,
    REASONS,
    Caption,
    refuse_all_unusable,
    refuse_same_for_many,
)
from mispair.repair.captioners.functions import module_of
from mispair.repair.captioners.pictures import CaptionedPart, Captioner, Captioning, caption_shards
from mispair.repair.captioners.recaption_settings import FUNCTION, GIVEN, TRAINED

if TYPE_CHECKING:
    from mispair.core.resume import Checkpoints
    from mispair.repair.captioners.recaption_settings import Settings
    from mispair.repair.captioners.trained import HeldOut, TrainedCaptioner
    from mispair.repair.captioners.vocabulary import Tokenizer


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
    """Return the metadata of a table of captions; `pairs` are the keys of its pairs.

    ``held_out`` has no picture where a captioner was trained that could not be tested.
    """
    test = {"pictures": 0} if held_out is None else asdict(held_out)
    tested = {"held_out": json.dumps(test, sort_keys=True)} if settings.captioner == TRAINED else {}
    libraries = versions() | {name: importlib.metadata.version(name) for name in LIBRARIES}
    how: dict[str, Any] = settings.model_dump(include={"seed", "max_words"})
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


log = logging.getLogger(__name__)

SHOWN = 10
"""Held-out captions with the right ones in the record."""

ENOUGH = 100
"""A group of at least so many pictures has a usable caption, or the captioner is of no use."""


@dataclass(frozen=True)
class CaptionerFiles:
    """Files of a job; lists are empty where its captioner does not read them.

    Attributes
    ----------
    corpus : Path
        The kept pairs.
    features, feature_rows : sequence of Path
        Cached features, and the tables of their rows.
    trusted : sequence of Path
        One Parquet file with key and caption of trusted pairs.
    towers : sequence of Path
        Files of the towers, the configuration first.
    index, shards, sources : sequence
        Of a group of shards: its index, its shards and the names of their sources. The index of
        all groups, if a table joins by a text of the pairs' JSON.
    """

    corpus: Path
    features: Sequence[Path]
    feature_rows: Sequence[Path]
    trusted: Sequence[Path]
    towers: Sequence[Path]
    index: Sequence[Path]
    shards: Sequence[Path]
    sources: Sequence[str]

    def digests(self) -> list[str]:
        """Return the digests of the corpus, the trusted pairs and the features that exist."""
        whole = [path for path in (self.corpus, *self.trusted) if path.is_file()]
        sampled = [path for path in self.features if path.is_file()]
        return [*map(file_digest, whole), *map(sampled_digest, sampled)]


@dataclass(frozen=True)
class Recaptioned:
    """Captions of a job.

    Attributes
    ----------
    keys : list of str
        Keys of the pairs, sorted.
    captions : list of Caption
        One for each.
    revision : str
        Revision of the captioner.
    device : str
        ``cpu`` or ``cuda``.
    seconds : dict
        Of ``captions``, and of ``training`` where there is any.
    resumed : int
        How many captions an earlier job had written.
    more : dict
        Further entries of the record.
    held_out : HeldOut or None
        How close captions of trusted pairs are that the captioner has not learned from; None where
        that was not tested.
    """

    keys: list[str]
    captions: list[Caption]
    revision: str
    device: str
    seconds: dict[str, float]
    resumed: int = 0
    more: dict[str, Any] = field(default_factory=dict)
    held_out: HeldOut | None = None

    def table(self) -> pd.DataFrame:
        """Return ``key``, ``caption`` (empty where there is a reason) and ``reason``."""
        columns = {
            "key": self.keys,
            "caption": ["" if caption.reason else caption.text for caption in self.captions],
            "reason": [caption.reason for caption in self.captions],
        }
        return pd.DataFrame(columns).astype(dict.fromkeys(columns, "str"))


def run(settings: Settings, states: Checkpoints, inputs: CaptionerFiles) -> Recaptioned:
    """Return the captions of a job, checked, by the captioner that the settings name."""
    sees_pictures = bool(settings.kind.load)
    if settings.captioner == GIVEN:
        outcome = run_given(settings, inputs)
    elif settings.captioner == TRAINED:
        outcome = run_trained(settings, states, inputs)
    else:
        outcome = run_pictures(settings, states, inputs)
    checked = refuse_same_for_many(outcome.captions, settings.max_same_share)
    if not sees_pictures or len(checked) >= ENOUGH:
        try:
            refuse_all_unusable(checked, settings.captioner)
        except UserError:
            states.remove()  # another run would go on from captions of no use
            raise
    return replace(outcome, captions=checked)


def run_given(settings: Settings, inputs: CaptionerFiles) -> Recaptioned:
    """Return the captions of a user's table."""
    started = time.perf_counter()
    keys = sources.read_pairs(inputs.corpus)["key"].tolist()
    captions = sources.read_given(settings, keys, inputs.index)
    seconds = {"captions": time.perf_counter() - started}
    return Recaptioned(keys, captions, revision_of(settings), "cpu", seconds)


def run_trained(settings: Settings, states: Checkpoints, inputs: CaptionerFiles) -> Recaptioned:
    """Train a captioner on trusted pairs, and return its captions of all pairs.

    `states` hold the state of the training, and the captions of each group.
    """
    from mispair.repair.captioners.trained import UNTESTED, drawn, examined, fit, warning

    device = choose_device(settings.device)
    started = time.perf_counter()
    right = sources.read_trusted_captions(inputs.trusted, inputs.corpus)
    tokenizer, towers_fingerprint = _tokenizer_of(inputs.towers[0].parent)
    cached = sources.PictureFeatures(inputs.features, inputs.feature_rows, towers_fingerprint)
    of_key = right.drop_duplicates("key", ignore_index=True)
    is_held = drawn(len(of_key), settings.seed)
    to_test = right[right["key"].isin(of_key["key"][is_held])]
    right = right[~right["key"].isin(to_test["key"])]
    learned = of_key[~is_held].reset_index(drop=True)
    rows = dict(zip(learned["key"], range(len(learned)), strict=True))
    try:
        with Progress("training the captioner", settings.steps, "steps") as progress:
            captioner, losses = fit(
                cached.of(learned),
                right["key"].map(rows).to_numpy(),
                right["caption"].tolist(),
                tokenizer,
                settings,
                device,
                states.keeper("training"),
                progress.reach,
            )
    except FloatingPointError as error:
        raise UserError(f"recaption_pairs: {error}.") from error
    trained = time.perf_counter()
    more: dict[str, Any] = {
        "trusted_pairs": len(of_key),
        "trusted_captions": len(right) + len(to_test),
        "tokens": len(captioner.vocabulary.ids),
        "loss": float(losses[-20:].mean()),
    }
    outcome = None
    if is_held.any():
        features = cached.of(of_key[is_held])
        outcome, examples = examined(
            captioner, features, to_test, right["caption"].tolist(), tokenizer
        )
        shown = zip(to_test["caption"], examples, strict=False)
        more["held_out"] = [(text, new.text) for text, new in list(shown)[:SHOWN]]
    else:
        log.warning("%s", UNTESTED)
    pairs = sources.read_pairs(inputs.corpus)
    if outcome is None or outcome.is_better or settings.use_if_not_better:
        written, resumed = _captions_of_groups(captioner, cached, pairs, states)
    else:
        written, resumed = [Caption("", NOT_BETTER)] * len(pairs), 0
    if outcome is not None and not outcome.is_better:
        log.warning("%s", warning(outcome, settings.use_if_not_better))
    seconds = {"training": trained - started, "captions": time.perf_counter() - trained}
    keys = pairs["key"].tolist()
    revision = captioner.revision
    return Recaptioned(keys, written, revision, device, seconds, resumed, more, outcome)


def _tokenizer_of(towers: Path) -> tuple[Tokenizer, str]:
    """Return the tokenizer of the towers in a folder, and their fingerprint."""
    small = towers / TOWERS_FILE
    if small.is_file():
        from mispair.core.files import read_tensors
        from mispair.core.provenance import file_digest
        from mispair.pretraining.data import WordTokenizer

        return WordTokenizer(json.loads(read_tensors(small)[1]["words"])), file_digest(small)
    from mispair.towers.loading import load_towers

    frozen = load_towers(towers)
    return frozen.tokenizer, frozen.fingerprint


def _captions_of_groups(
    captioner: TrainedCaptioner, cached: sources.PictureFeatures, pairs: Any, states: Checkpoints
) -> tuple[list[Caption], int]:
    """Return captions of all pairs, and how many were saved: those of a group are, once written."""
    captions = [Caption("")] * len(pairs)
    resumed = done = 0
    revision = captioner.revision
    with Progress("writing captions", len(pairs), "captions") as progress:
        for group, places, features in cached.by_group(pairs):
            rows = range(len(places))
            part = CaptionedPart(rows, states.array_keeper(f"captions-{group}-{revision}"))
            resumed += len(part.captions)
            if part.missing:
                keys = pairs["key"].iloc[places].tolist()
                part.add(rows, captioner.caption(features, keys, partial(_reach, progress, done)))
            done += len(places)
            for row, place in enumerate(places):
                captions[place] = part.captions[row]
    return captions, resumed


def _reach(progress: Progress, before: int, number: int) -> None:
    progress.reach(before + number)


def run_pictures(settings: Settings, states: Checkpoints, inputs: CaptionerFiles) -> Recaptioned:
    """Return captions of the pictures of a group of shards; `states` hold those of each shard."""
    revision = revision_of(settings)
    kept = sources.read_index(inputs.index, sources.read_pairs(inputs.corpus))
    device = choose_device(settings.device)
    rows = {str(name): list(map(int, of)) for name, of in kept.groupby("shard").indices.items()}
    started = time.perf_counter()
    with staged(inputs.shards) as local, Progress("captioning", len(kept), "pictures") as progress:
        named = by_name(local, inputs.sources)
        sources.refuse_missing_shards(rows, named)
        load = partial(load_captioner, settings, device)
        captioning = Captioning(load, named, locations(kept), settings)
        captions, resumed = caption_shards(captioning, rows, states, progress.reach)
    seconds = {"captions": time.perf_counter() - started}
    return Recaptioned(kept["key"].tolist(), captions, revision, device, seconds, resumed)


def load_captioner(settings: Settings, device: str) -> Captioner:
    """Load the captioner of pictures that the settings name.

    Raises
    ------
    UserError
        If it cannot be loaded.
    """
    from mispair.core.devices import compute_repeatably

    if device == "cuda" and settings.kind is not FUNCTION:
        compute_repeatably()  # this is a process of its own
    module, _, function = settings.kind.load.partition(".")
    load = getattr(import_module(f"{package.__name__}.{module}"), function)
    captioner: Captioner = load(settings, device)
    return captioner
