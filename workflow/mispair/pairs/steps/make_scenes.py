"""Generate the corpus `scenes`: rendered pictures with captions, in img2dataset's shards."""

from pathlib import Path
from typing import Any

from pydantic import Field

from mispair.core import settings


class Settings(settings.Settings):
    seed: int = Field(
        1, ge=0,
        description="Seed of the corpus. With 0 its pairs are those that the shipped towers were "
        "trained on, which these towers cannot audit.",
    )  # fmt: skip
    shards: int = Field(20, ge=1, le=99999, description="Number of tar shards.")
    pairs_per_shard: int = Field(1000, ge=1, description="Image-text pairs in each shard.")
    image_size: int = Field(64, ge=16, le=1024, description="Side of the pictures, in pixels.")
    jpeg_quality: int = Field(90, ge=1, le=95, description="JPEG quality, from 1 to 95.")
    high_quality_share: float = Field(
        1.0, ge=0, le=1, description="Share of pairs in S_h, whose captions name all features."
    )
    spurious_probability: float = Field(
        0.0,
        ge=0,
        le=1,
        description="C_s: probability of a missing and of a spurious feature in S_w captions.",
    )
    processes: int = Field(2, ge=1, description="Processes that render; no effect on the bytes.")


def run(settings: Settings, *, corpus: Path) -> None:
    """Write the corpus: the folder of shards, replaced as a whole."""
    from concurrent.futures import ProcessPoolExecutor
    from functools import partial

    from mispair.core.devices import count_workers
    from mispair.core.files import replacing_folder
    from mispair.core.forks import context_of_workers
    from mispair.core.progress import Progress
    from mispair.pairs.shards.supervision import end_with_the_parent

    numbers = range(settings.shards)
    bar = Progress("making scenes", settings.shards, "shards")
    with replacing_folder(corpus) as folder, bar as progress:
        progress.reach(0)
        write = partial(_write_shard, settings, folder)
        if settings.processes == 1 or settings.shards == 1:
            for number in numbers:
                write(number)
                progress.advance()
            return
        workers = min(settings.processes, settings.shards)
        context = context_of_workers()
        with ProcessPoolExecutor(workers, context, initializer=end_with_the_parent) as pool:
            for _ in pool.map(write, numbers):
                progress.advance()
            count_workers()


def _write_shard(settings: Settings, folder: Path, number: int) -> None:
    from mispair.pairs.shards import shard_writer

    samples = (_sample(settings, number, sample) for sample in range(settings.pairs_per_shard))
    shard_writer.write_shard(folder, number, samples)


def _sample(settings: Settings, shard: int, sample: int) -> tuple[bytes, dict[str, Any]]:
    from mispair.pairs.scenes.scenes import make_pair
    from mispair.pairs.shards.shard_writer import img2dataset_row, key_of

    key, side = key_of(shard, sample, settings.pairs_per_shard), settings.image_size
    pair = make_pair(
        key, seed=settings.seed, size=side, quality=settings.jpeg_quality,
        high_quality_share=settings.high_quality_share, spurious=settings.spurious_probability,
    )  # fmt: skip
    jpg, url = pair.pop("jpg"), f"http://scenes.invalid/{settings.seed}/{key}.jpg"
    return jpg, img2dataset_row(key, jpg, pair.pop("caption"), url, side, side, **pair)
