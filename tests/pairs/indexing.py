"""The steps `list_images` and `index_shards` on a group of shards, with the files of a run."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mispair.pairs.index.faults import ImageLimits
from mispair.pairs.steps import index_shards, list_images


def noise(seed: int, side: int = 24) -> bytes:
    """A JPEG of its own for each seed."""
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG")
    return stream.getvalue()


def list_group(
    shards: list[Path], folder: Path, workers: int = 1, sources: Sequence[str] = (), **settings: Any
) -> tuple[Path, Path]:
    """List the images of shards in a folder; return both tables. Settings are `index_shards`'."""
    chosen = index_shards.Settings(**settings)
    images, unusable = folder / "0000.images.parquet", folder / "0000.unusable.parquet"
    given = {name: getattr(chosen, name) for name in (*ImageLimits.model_fields, "stall_seconds")}
    list_images.run(
        list_images.Settings(), shards=shards, sources=list(sources), workers=workers,
        images=images, unusable=unusable, **given,
    )  # fmt: skip
    return images, unusable


def index_group(
    shards: list[Path], folder: Path, workers: int = 1, captions: Path | None = None,
    sources: Sequence[str] = (), **settings: Any,
) -> tuple[Path, Path]:  # fmt: skip
    """Index shards whose images are listed in a folder; return index and rejected samples."""
    index, rejected = folder / "0000.parquet", folder / "0000.rejected.parquet"
    index_shards.run(
        index_shards.Settings(**settings), shards=shards, sources=list(sources),
        images=folder / "0000.images.parquet", unusable=folder / "0000.unusable.parquet",
        captions=[captions] if captions else [], workers=workers, index=index, rejected=rejected,
    )  # fmt: skip
    return index, rejected


def list_and_index(
    shards: list[Path], folder: Path, workers: int = 1, captions: Path | None = None,
    sources: Sequence[str] = (), **settings: Any,
) -> tuple[Path, Path]:  # fmt: skip
    """List the images of shards and index them; return index and rejected samples."""
    list_group(shards, folder, workers, sources, **settings)
    return index_group(shards, folder, workers, captions, sources, **settings)
