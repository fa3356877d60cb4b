"""Run the frozen towers once over every image and every distinct caption."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from mispair import settings

if TYPE_CHECKING:
    from PIL import Image


class Settings(settings.Settings):
    """Settings of `encode_features`."""

    batch_size: int = Field(256, ge=1, description="Images or captions per forward pass.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where the towers run; auto takes a GPU when there is one."
    )


def run(
    settings: Settings,
    *,
    shards: list[Path],
    index: Path,
    towers: list[Path],
    features: Path,
    rows: Path,
) -> None:
    """Write pre-projection features of a group of shards, and which row holds what."""
    import pandas as pd

    from mispair import files
    from mispair.devices import choose_device
    from mispair.pairs.reading import kept_images
    from mispair.provenance import fingerprint
    from mispair.towers.encoding import encode_images, encode_texts
    from mispair.towers.loading import load_towers

    kept, _ = files.read_parquet(index)
    frozen = load_towers(towers[0].parent, choose_device(settings.device))
    started = time.perf_counter()
    keys: list[str] = []

    def images() -> Iterator[Image.Image]:
        pairs = list(zip(kept["shard"], kept["key"], strict=True))
        for key, image in kept_images(shards, pairs):
            keys.append(key)
            yield image

    image_features = encode_images(frozen, images(), settings.batch_size)
    if len(keys) != len(kept):
        raise files.UserError(
            f"{index} lists {len(kept)} pairs but {len(keys)} images were found in "
            f"{', '.join(map(str, shards))}: the shards changed while the run was on. Run again."
        )
    captions = kept.drop_duplicates("caption_id").sort_values("caption_id")
    text_features = encode_texts(frozen, captions["caption"].tolist(), settings.batch_size)
    seconds = time.perf_counter() - started
    logging.getLogger(__name__).info(
        "encoded %d images and %d distinct captions in %.1f s (%.0f pairs/s) on %s",
        len(keys),
        len(captions),
        seconds,
        len(keys) / seconds,
        frozen.image_projection.device,
    )
    named = [("image", keys), ("text", captions["caption_id"].tolist())]
    table = pd.concat(
        pd.DataFrame({"kind": kind, "id": names, "row": range(len(names))}) for kind, names in named
    ).astype({"kind": "str", "id": "str", "row": "int64"})
    metadata = {"towers": frozen.fingerprint, "pairs": fingerprint(sorted(keys))}
    files.write_parquet(rows, table, metadata)
    files.write_tensors(
        features, {"image_features": image_features, "text_features": text_features}, metadata
    )
