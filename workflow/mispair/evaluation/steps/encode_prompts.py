"""Run the frozen text tower once over the prompts of a protocol for an evaluation set."""

import json
import logging
from pathlib import Path

from mispair.towers.encoding_record import EncodingSettings

log = logging.getLogger(__name__)


class Settings(EncodingSettings):
    """Settings of `encode_prompts`."""


def run(
    settings: Settings,
    *,
    evaluation_set: list[Path],
    name: str | None = None,
    protocol: str,
    protocol_files: list[Path],
    towers: list[Path],
    prompts: Path,
) -> None:
    """Write pre-projection features of prompts, the class of each, and their sources."""
    from mispair.core import files
    from mispair.core.progress import Progress
    from mispair.evaluation.prompts import prompts as prompts_of
    from mispair.evaluation.set_samples import open_set
    from mispair.towers.encoding import encoding_job
    from mispair.towers.loading import made_from_laion

    opened = open_set(evaluation_set[0].parent, name=name)
    laion = made_from_laion(towers[0].parent)
    asked = prompts_of(opened, protocol, protocol_files, laion=laion)
    log.info(
        "%s by protocol %s: %d classes, %d prompts",
        *(opened.name, protocol, len(asked.classnames), len(asked.texts)),
    )
    rows = {text: row for row, text in enumerate(dict.fromkeys(asked.texts))}
    with encoding_job("encode_prompts", settings, towers, prompts) as (encoder, times, parts):
        with Progress(f"encoding {opened.name}", len(rows), "prompts") as progress:
            features = encoder.encode_texts([*rows], [*rows], times, parts, progress.reach).numpy()
        times.finish(precision=settings.precision)
        questions, names = asked.numbered_questions()
        files.write_tensors(
            prompts,
            {
                "prompt_features": features[[rows[text] for text in asked.texts]],
                "prompt_classes": asked.classes,
                **questions,
            },
            {
                "name": opened.name,
                "kind": opened.kind,
                "protocol": asked.protocol,
                "metric": asked.metric,
                "classnames": json.dumps(asked.classnames, ensure_ascii=False),
                "templates": json.dumps(asked.templates or "per class", ensure_ascii=False),
                "categories": json.dumps(names, ensure_ascii=False),
                "fingerprint": asked.fingerprint,
                "towers": encoder.towers.fingerprint,
                "precision": settings.precision,
            },
        )
