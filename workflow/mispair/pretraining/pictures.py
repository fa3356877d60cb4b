"""Pictures of a whole corpus as one array of small squares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from mispair.core.files import UserError
from mispair.pairs.index.image_list import locations, read_images


def resized(image: Image.Image, side: int) -> np.ndarray:
    """Return an RGB picture averaged to `side` by `side` pixels, (side, side, 3) uint8."""
    return np.asarray(image.convert("RGB").resize((side, side), Image.Resampling.BOX))


def read_pictures(
    pairs: pd.DataFrame,
    index: Mapping[str, pd.DataFrame],
    shards: Sequence[Path],
    side: int,
    progress: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """Decode and resize the picture of every pair, (n, side, side, 3) uint8 in their order.

    Parameters
    ----------
    pairs : DataFrame
        ``key`` and ``group`` of each of n pairs.
    index : mapping of str to DataFrame
        The index of each group, as `mispair.pairs.steps.index_shards` writes it.
    shards : sequence of Path
        The shards that the indexes name.
    progress : callable
        Takes the number of decoded pictures.

    Raises
    ------
    UserError
        If a pair is in no index, or a shard is missing or was changed.
    """
    paths = {path.name: path for path in shards}
    names = zip(pairs["group"], pairs["key"], strict=True)
    rows = {name: row for row, name in enumerate(names)}
    pictures = np.zeros((len(pairs), side, side, 3), np.uint8)
    done = 0
    for group, table in index.items():
        for shard, part in table.groupby("shard", sort=True):
            kept = part[[(group, key) in rows for key in part["key"]]]
            if kept.empty:
                continue
            if shard not in paths:
                raise UserError(f"decode_pictures: the index of group {group} names {shard}, which "
                                "is not among the shards given.")  # fmt: skip
            images = read_images(paths[str(shard)], locations(kept))
            for key, image in zip(kept["key"], images, strict=True):
                pictures[rows[group, key]] = resized(image, side)
                done += 1
            progress(done)
    if done != len(pairs):
        raise UserError(
            f"decode_pictures: {len(pairs) - done} of {len(pairs)} pairs of the corpus are in no "
            "index. Delete the corpus and run again."
        )
    return pictures
