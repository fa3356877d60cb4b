"""Cached features of frozen towers, gathered for one pairing of images and captions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class PairedFeatures:
    """Features of a pairing, each distinct caption held once.

    Attributes
    ----------
    image_features : (n, d_image) array
        Pre-projection features of the images, in the order of the pairing.
    text_features : (c, d_text) array
        Pre-projection features of the captions that the pairing uses, sorted by caption id.
    text_rows : (n,) int64 array
        Row of `text_features` with which each image is paired.
    """

    image_features: np.ndarray
    text_features: np.ndarray
    text_rows: np.ndarray


def gather(
    rows: Sequence[pd.DataFrame],
    load: Callable[[int], Mapping[str, np.ndarray]],
    keys: np.ndarray,
    caption_ids: np.ndarray,
) -> PairedFeatures:
    """Assemble the features of a pairing from the parts in which they are cached.

    Parts are loaded one at a time, and only what the pairing uses is kept, so memory is that of
    the result and one part. A caption that several parts hold is taken from the first, where
    parts are ordered by their smallest image key: the order of the arguments changes nothing.

    Parameters
    ----------
    rows : sequence of DataFrame
        For each part the columns ``kind`` ("image" or "text"), ``id`` (key or caption id) and
        ``row`` (row in the array of that kind).
    load : callable
        Returns ``image_features`` and ``text_features`` of the part with that number.
    keys : (n,) array
        Keys of the images wanted, each once.
    caption_ids : (n,) array
        Caption with which each image is paired.

    Returns
    -------
    PairedFeatures
        In single precision, or double where the parts are.

    Raises
    ------
    ValueError
        If an image or a caption is in no part, or a used feature is not finite.
    """
    captions, text_rows = np.unique(np.asarray(caption_ids), return_inverse=True)
    image = _Collector("image", keys)
    text = _Collector("text", captions)
    for part in sorted(range(len(rows)), key=lambda number: _smallest_key(rows[number])):
        tensors = load(part)
        image.take(rows[part], tensors["image_features"])
        text.take(rows[part], tensors["text_features"])
    return PairedFeatures(image.finished(), text.finished(), text_rows.astype(np.int64).ravel())


def _smallest_key(rows: pd.DataFrame) -> str:
    return min((str(key) for key in rows.loc[rows["kind"] == "image", "id"]), default="")


class _Collector:
    """Fills one array, row by wanted row, from many parts."""

    def __init__(self, kind: str, wanted: np.ndarray) -> None:
        self.kind = kind
        self.wanted = pd.Index(wanted)
        self.found = np.zeros(len(self.wanted), dtype=bool)
        self.array = np.empty((0, 0), dtype=np.float32)

    def take(self, rows: pd.DataFrame, features: np.ndarray) -> None:
        rows = rows[rows["kind"] == self.kind].drop_duplicates("id")
        position = self.wanted.get_indexer(pd.Index(rows["id"]))
        # Not found is -1, for which the last entry of `found` stands in; the first test drops it.
        new = (position >= 0) & ~self.found[position] if len(self.wanted) else position >= 0
        if self.array.size == 0:
            precision = np.promote_types(features.dtype, np.float32)
            self.array = np.empty((len(self.wanted), features.shape[1]), dtype=precision)
        self.array[position[new]] = features[rows["row"].to_numpy()[new]]
        self.found[position[new]] = True

    def finished(self) -> np.ndarray:
        if not self.found.all():
            missing = self.wanted[~self.found]
            raise ValueError(
                f"the features hold no {self.kind} {missing[0]!r}"
                f" ({len(missing)} of {len(self.found)} are missing)"
            )
        bad = ~np.isfinite(self.array.sum(axis=1, dtype=np.float64))
        if bad.any():
            raise ValueError(f"the feature of {self.kind} {self.wanted[bad][0]!r} is not finite")
        return self.array
