"""Read tar shards and list the images that can be encoded, with any captions."""

import logging
from pathlib import Path

from mispair.core import settings


class Settings(settings.Settings):
    """There is nothing to set here: the limits are settings of `index_shards`."""


def run(
    settings: Settings,
    *,
    shards: list[Path],
    sources: list[str],
    max_image_pixels: int,
    min_image_side: int,
    max_aspect_ratio: float,
    stall_seconds: float,
    workers: int,
    images: Path,
    unusable: Path,
) -> None:
    """Write the images of a group of shards, and those that cannot be encoded.

    Image features depend on these tables only.

    The list of each shard is kept next to `images`, for a job that is killed, and for later ones.
    """
    from functools import partial

    from mispair.core.progress import Progress
    from mispair.core.provenance import code_version, fingerprint
    from mispair.core.resume import checkpoints
    from mispair.core.reuse import Parts, software
    from mispair.pairs.index import parts
    from mispair.pairs.index.faults import ImageLimits
    from mispair.pairs.index.image_list import by_name

    limits = ImageLimits(
        max_image_pixels=max_image_pixels,
        min_image_side=min_image_side,
        max_aspect_ratio=max_aspect_ratio,
    )
    code = [*code_version("list_images"), *software()]
    kept = Parts(images, code)
    planned = parts.plan(by_name(shards, sources), kept.folder, [repr(limits), *code])
    planned = parts.at_hand(planned)
    task = partial(parts.write_part, limits=limits)
    with checkpoints(images.with_name(f"{images.name}.parts"), fingerprint(code)) as states:
        with Progress("listing", len(planned), "shards") as progress:
            lost = parts.read_unfinished(
                task, planned, workers=workers, stall_seconds=stall_seconds,
                describe=parts.describe, ending=states.ending, progress=progress.reach,
            )  # fmt: skip
        counts = parts.gather(planned, lost, images=images, unusable=unusable)
        kept.finish(path for part in planned if part not in lost for path in part.files)
    logging.getLogger(__name__).info("%d shards: %d images, %d faults", len(planned), *counts)
