"""Embeddings of pairs on scratch space, in any order of the pairs, read a part at a time."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np
import pyarrow as pa

from mispair.core.files import UserError
from mispair.pairs.index.identities import identities
from mispair.towers.features import FeaturePart

# Where values are in an array.


def first_places(sought: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return where each sought value is first in an array, (m,) int64; -1 where it is not."""
    if not len(values):
        return np.full(len(sought), -1)
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    position = np.minimum(np.searchsorted(ordered, sought), len(values) - 1)
    return np.where(ordered[position] == sought, order[position], -1)


def all_places(sought: np.ndarray, ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all places of some values in a sorted array, and which value is there.

    Returns
    -------
    places, which : (m,) int arrays
        Places in `ordered`, and in `sought`.
    """
    first, end = (np.searchsorted(ordered, sought, side) for side in ("left", "right"))
    counts = end - first
    owners = np.repeat(np.arange(len(sought)), counts)
    within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    return first[owners] + within, owners


_ROWS = 8192


class Embeddings:
    """Embeddings (n, e) of length 1 on a file, of half precision: two bytes a number.

    Written rows are released to the system, so that the memory of this process does not grow
    with n.

    Parameters
    ----------
    scratch : file
        Empty, open for reading and writing.
    n, width : int
        Shape.
    """

    def __init__(self, scratch: IO[bytes], n: int, width: int) -> None:
        scratch.truncate(max(1, 2 * n * width))
        self._map = mmap.mmap(scratch.fileno(), 0)
        self._rows = np.frombuffer(self._map, np.float16)[: n * width].reshape(n, width)
        self.filled = np.zeros(n, bool)

    def put(self, positions: np.ndarray, vectors: np.ndarray) -> None:
        """Write rows."""
        self._rows[positions] = vectors
        self.filled[positions] = True

    def get(self, rows: np.ndarray) -> np.ndarray:
        """Return rows in float32."""
        return self._rows[rows].astype(np.float32)

    def release(self) -> None:
        """Let the system take the memory of what was read or written; the file keeps it."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True)
class PairEmbeddings:
    """Embeddings of the pictures and of the captions of n pairs; pair i is in row `position[i]`."""

    images: Embeddings
    texts: Embeddings
    position: np.ndarray

    def images_of(self, pairs: np.ndarray) -> np.ndarray:
        """Return the embeddings of the pictures of some pairs, (m, e) float32."""
        return self.images.get(self.position[pairs])

    def texts_of(self, pairs: np.ndarray) -> np.ndarray:
        """Return the embeddings of the captions of some pairs, (m, e) float32."""
        return self.texts.get(self.position[pairs])

    def release(self) -> None:
        """Let the system take the memory of both."""
        self.images.release()
        self.texts.release()

    def blocks(
        self, dealt: Iterable[np.ndarray]
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield blocks of pairs with both embeddings, as `mispair.audit.score.rank` takes them."""
        for pairs in dealt:
            yield pairs, self.images_of(pairs), self.texts_of(pairs)
            self.release()


def project(features: np.ndarray, projection: np.ndarray, crops: int = 1) -> np.ndarray:
    """Return embeddings of length 1, the mean over crops; (rows, e) float32.

    Parameters
    ----------
    features : (rows * crops, d) array
        Features before the projection.
    projection : (d, e) array
        Columns are neurons.

    Raises
    ------
    ValueError
        If a feature is not finite, or an embedding has no direction.
    """
    vectors = _unit(features.astype(np.float32) @ projection.astype(np.float32))
    if crops > 1:
        vectors = _unit(vectors.reshape(-1, crops, vectors.shape[1]).mean(axis=1))
    return vectors


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.sqrt(np.einsum("ne,ne->n", vectors, vectors, dtype=np.float64))
    wrong = ~(np.isfinite(lengths) & (lengths > 0))
    if wrong.any():
        raise ValueError(f"row {np.flatnonzero(wrong)[0]}")
    return vectors / lengths[:, None].astype(np.float32)


def place_images(
    part: FeaturePart, rows: np.ndarray, keys: np.ndarray, positions: np.ndarray,
    projection: np.ndarray, target: Embeddings,
) -> None:  # fmt: skip
    """Write the embeddings of m images of a part at `positions`; `rows` and `keys` name them.

    Raises
    ------
    UserError
        See `images_of_index`; or if a feature cannot be used.
    """
    images = images_of_index(part, rows, keys)
    for start in range(0, len(rows), _ROWS):
        some = slice(start, start + _ROWS)
        features = images[rows[some]].reshape(-1, images.shape[2])
        vectors = _projected(features, projection, part.crops, part.name, keys[some])
        target.put(positions[some], vectors)


def images_of_index(part: FeaturePart, rows: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return the features of all images of a group, (images, crops, d), in order of the index.

    Parameters
    ----------
    part : Part
        Features of a group of shards, and what their rows are.
    rows : (m,) int array
        Rows of images in the index of the group.
    keys : (m,) array of str
        Their keys, which the features must have in these rows.

    Raises
    ------
    UserError
        If features and index do not match.
    """
    table = part.rows[part.rows["kind"] == "image"].sort_values("row")
    held = table["id"].to_numpy()
    complete = len(part.image_features) == len(held) * part.crops
    if not complete or (rows >= len(held)).any() or (held[rows] != keys).any():
        raise UserError(
            f"{part.name}: its images are not those of the index. Delete it and run again."
        )
    return part.image_features.reshape(len(held), part.crops, -1)


def place_texts(
    part: FeaturePart, captions: np.ndarray, positions: np.ndarray, projection: np.ndarray,
    target: Embeddings,
) -> None:  # fmt: skip
    """Write embeddings of the captions of a part, each for every pair that has it.

    Parameters
    ----------
    part : Part
        Features of captions, and which rows are which.
    captions : (n,) uint64 array
        The caption of each pair, sorted.
    positions : (n,) int array
        Where each of these pairs goes.
    projection : (d, e) array
        The text projection.
    target : Embeddings
        Written.

    Raises
    ------
    UserError
        If a feature cannot be used.
    """
    table = part.rows[part.rows["kind"] == "text"].drop_duplicates("id")
    ids, row = table["id"].to_numpy(), table["row"].to_numpy()
    numbers = identities(pa.chunked_array([table["id"]], pa.string()))
    for start in range(0, len(row), _ROWS):
        some = slice(start, start + _ROWS)
        places, which = all_places(numbers[some], captions)
        used, of_place = np.unique(which, return_inverse=True)
        features = part.text_features[row[some][used]]
        vectors = _projected(features, projection, 1, part.name, ids[some][used])
        for portion in range(0, len(places), _ROWS):  # a text may be that of all pairs
            chosen = slice(portion, portion + _ROWS)
            target.put(positions[places[chosen]], vectors[of_place[chosen]])


def _projected(
    features: np.ndarray, projection: np.ndarray, crops: int, name: str, ids: np.ndarray
) -> np.ndarray:
    if features.shape[1] != len(projection):
        raise UserError(
            f"{name}: features of width {features.shape[1]} do not fit a projection from "
            f"{len(projection)}. Encode it again."
        )
    try:
        return project(features, projection, crops)
    except ValueError as error:
        row = int(str(error).removeprefix("row ")) // crops
        raise UserError(
            f"{name}: the feature of {ids[row]!r} is zero or not finite. Encode it again, in more "
            "precision if it was encoded in less than fp32."
        ) from error
