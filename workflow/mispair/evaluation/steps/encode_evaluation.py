"""Run the frozen image tower once over a split of an evaluation set."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mispair.core import settings
from mispair.towers.encoding_settings import EncodingSettings

if TYPE_CHECKING:
    from mispair.towers.encoding import Picture

log = logging.getLogger(__name__)


class Settings(EncodingSettings):
    """Settings of `encode_evaluation`."""

    workers: int = settings.sweep(
        0,
        ge=0,
        description="Threads of a job that decode and resize for the tower; 0 suits CPUs, where "
        "other jobs fill the cores. Changes no result.",
    )


def run(
    settings: Settings,
    *,
    evaluation_set: list[Path],
    split: str,
    towers: list[Path],
    workers: int,
    evaluation_features: Path,
) -> None:
    """Write pre-projection features of images, and their labels.

    Where captions are to be chosen: which images are the same picture, in place of labels.
    """
    import hashlib

    import numpy as np

    from mispair.core import files
    from mispair.core.devices import choose_device, usable_cores
    from mispair.core.progress import Progress
    from mispair.core.provenance import code_version, fingerprint
    from mispair.core.resume import checkpoints
    from mispair.core.settings import command_line
    from mispair.evaluation.sets import open_images
    from mispair.towers.encoding import Encoder, Picture
    from mispair.towers.encoding_record import EncodingRecord
    from mispair.towers.loading import load_towers

    opened = open_images(evaluation_set)
    frozen = load_towers(towers[0].parent, choose_device(settings.device))
    encoder = Encoder(frozen, settings.batch_size, settings.precision)
    times = EncodingRecord(encoder.device)
    labels, contents = [], []

    def pictures() -> Iterator[Picture]:
        for example in opened.samples():
            labels.append(example.label)
            contents.append(hashlib.sha256(example.image).digest())
            yield Picture(f"{example.shard}: {example.key}", example.image, example.decode)

    job = [command_line(settings), encoder.device, frozen.fingerprint]
    job += code_version("encode_evaluation")
    folder = evaluation_features.with_name(f"{evaluation_features.name}.parts")
    with checkpoints(folder, fingerprint(job)) as parts:
        with Progress(f"encoding {opened.name}", opened.count(), "images") as progress:
            features = encoder.encode_images(
                pictures(), times, parts, progress.reach, min(workers, usable_cores())
            ).numpy()
        if not labels:
            raise files.UserError(f"{opened.directory}: holds no image for {split}.")
        times.finish(precision=settings.precision)
        targets = {}
        if opened.kind == "classification":
            targets["labels"] = np.asarray(labels, np.int64)
        elif opened.kind == "image_caption_selection":  # Several questions may be about a picture.
            targets["pictures"] = np.unique(contents, return_inverse=True)[1].astype(np.int64)
        files.write_tensors(
            evaluation_features,
            {"image_features": features, **targets},
            {
                "name": opened.name,
                "kind": opened.kind,
                "split": split,
                "images_fingerprint": fingerprint([*contents, *map(str, labels)]),
                "towers": frozen.fingerprint,
                "precision": settings.precision,
            },
        )
