"""The pairs that are audited: every caption of every picture, with both embeddings.

Embeddings are on scratch space, in any order of the pairs, and are read a part at a time.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mispair.core.files import UserError, explained, mapped
from mispair.pairs.captions.caption_texts import CaptionedPairs
from mispair.pairs.corruption.draws import column
from mispair.pairs.index.identities import hexadecimal, identities
from mispair.towers.features import FeaturePart, PairedFeatures, gather, parts_of_towers, read_part

# Where values are in an array.


def first_places(sought: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return where each sought value is first in an array, (m,) int64; -1 where it is not."""
    places = pc.index_in(pa.array(sought), value_set=pa.array(values))
    return np.asarray(pc.fill_null(places, -1).to_numpy(zero_copy_only=False)).astype(np.int64)


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

    Raises
    ------
    OSError
        If the disk has no room.
    """

    def __init__(self, scratch: IO[bytes], n: int, width: int) -> None:
        rows = mapped(scratch, np.dtype(np.float16), (max(n, 1), width))
        self._map: Any = rows.base
        self._rows = np.asarray(rows)[:n]
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
        If the part has other images, or a feature cannot be used.
    """
    try:
        images = part.images(rows, keys)
    except ValueError as error:
        raise UserError(f"audit: {error}.") from error
    for start in range(0, len(rows), _ROWS):
        some = slice(start, start + _ROWS)
        features = images[rows[some]].reshape(-1, images.shape[2])
        vectors = _projected(features, projection, part.crops, part.name, keys[some])
        target.put(positions[some], vectors)


def place_texts(
    part: FeaturePart, captions: np.ndarray, positions: np.ndarray, projection: np.ndarray,
    target: Embeddings,
) -> None:  # fmt: skip
    """Write embeddings of the captions of a part, each for every pair that has it.

    Parameters
    ----------
    part : FeaturePart
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
    numbers = identities(table["id"])
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


# Every caption of every picture of a corpus, and the embeddings of these pairs.


@dataclass(frozen=True)
class Audited:
    """The n pairs of pictures and captions that are audited, in order of keys.

    Attributes
    ----------
    image : (n,) int64 array
        Which picture of the corpus.
    caption_ids : (n,) uint64 array
        Identity of the caption.
    """

    image: np.ndarray
    caption_ids: np.ndarray

    @classmethod
    def of(cls, pairs: CaptionedPairs) -> Audited:
        """Take every caption of every picture, the first one first."""
        captions = pairs.alternatives
        first = np.ones(captions.shape, bool)
        for nth in range(1, captions.shape[1]):
            # Pictures with fewer captions repeat their first one.
            first[:, nth] = (captions[:, :nth] != captions[:, nth, None]).all(axis=1)
        places = np.nonzero(first)
        return cls(places[0], captions[places])

    def of_pictures(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of some pictures (p,), and which picture each has; (m,) ints each."""
        return all_places(places, self.image)

    def __len__(self) -> int:
        return len(self.image)


@contextmanager
def embedded(
    audited: Audited,
    position: np.ndarray,
    pairs: CaptionedPairs,
    features: Sequence[Path],
    rows: Sequence[Path],
    projections: tuple[np.ndarray, np.ndarray],
    towers: str | None,
    folder: Path,
) -> Iterator[PairEmbeddings]:
    """Yield embeddings of all pairs, which are deleted afterwards.

    Parts are read one at a time. Embeddings are on scratch space in `folder`, 2 bytes a number.

    Parameters
    ----------
    audited : Audited
        n pairs of the corpus `pairs`.
    position : (n,) int array
        Which row of the embeddings each pair has.
    features, rows : sequence of Path
        Cached features, and the tables of what their rows are.
    projections : two (d, e) arrays
        Of images and of texts.
    towers : str
        Fingerprint of the towers that the projections belong to.

    Raises
    ------
    UserError
        If features are missing, unusable, or of other towers.
    """
    groups = dict(pairs.by_group())
    order = np.argsort(audited.caption_ids, kind="stable")
    captions = audited.caption_ids[order]
    row_of_image = pairs.table["row"].to_numpy()
    shape = len(audited), projections[0].shape[1]
    with explained(folder), ExitStack() as stack:
        images, texts = (
            Embeddings(stack.enter_context(tempfile.TemporaryFile(dir=folder)), *shape)
            for _ in range(2)
        )
        embeddings = PairEmbeddings(images, texts, position)
        for name, part in _parts(features, rows, towers):
            if len(part.image_features) and name in groups:
                places = groups[name]
                chosen, of_place = audited.of_pictures(places)
                keys = pairs.table["key"].take(pa.array(places[of_place])).to_numpy()
                place_images(
                    part, row_of_image[places[of_place]], keys, position[chosen],
                    projections[0], images,
                )  # fmt: skip
            if len(part.text_features):
                place_texts(part, captions, position[order], projections[1], texts)
            embeddings.release()
        for rows_of, what in ((images, "image"), (texts, "caption")):
            missing = np.flatnonzero(~rows_of.filled[position])
            if len(missing):
                key = pairs.table["key"][int(audited.image[missing[0]])]
                raise UserError(
                    f"audit: the features hold no {what} of the pair {key!s} ({len(missing)} are "
                    "missing). Delete the features and run again."
                )
        yield embeddings


def _parts(
    features: Sequence[Path], rows: Sequence[Path], towers: str | None
) -> Iterator[tuple[str, FeaturePart]]:
    try:
        for name, load in sorted(parts_of_towers(features, rows, towers).items()):
            yield name, load()
    except ValueError as error:
        raise UserError(f"audit: {error}.") from error


def refuse_unusable(corpus: Path, texts: np.ndarray, least: int) -> None:
    """Refuse a corpus of too few pairs, or of captions that are all the same words.

    `texts` (n,) are numbers from `groups_of`, and `least` is the least number of pairs; `corpus`
    is for the message.

    Raises
    ------
    UserError
        If an audit would have no result.
    """
    if len(texts) < least:
        raise UserError(
            f"audit_pairs: {corpus} holds {len(texts)} pairs, too few for a useful interval. Give "
            f"at least {least}."
        )
    if len(np.unique(texts)) < 2:
        raise UserError(
            f"audit_pairs: all captions of {corpus} are the same words, so there is nothing to "
            "rank a caption among. Check the column or sidecar that captions were read from."
        )


def features_of_sample(
    pairs: CaptionedPairs,
    sample: np.ndarray,
    sources: Sequence[np.ndarray],
    features: Sequence[Path],
    rows: Sequence[Path],
) -> PairedFeatures:
    """Return features before the projections of some pairs, a draw for each of several pairings.

    Parameters
    ----------
    pairs : CaptionedPairs
        The corpus.
    sample : (m,) int array
        The pairs.
    sources : sequence of (n,) int arrays
        For each pairing the pair whose caption each pair has.
    features, rows : sequence of Path
        As `embedded` takes them.
    """
    table = pairs.table.take(sample).to_pandas()
    for draw, source in enumerate(sources):
        captions = hexadecimal(pairs.caption_ids[source[sample]])
        table[column("caption_id", draw)] = captions.to_pylist()
        table[column("text_changed", draw)] = False
    tables = {path.stem: path for path in rows}
    parts = {path.stem: partial(read_part, path, tables[path.stem]) for path in features}
    try:
        return gather(parts, table, [np.arange(len(sample))] * len(sources))
    except ValueError as error:
        raise UserError(f"audit: {error}.") from error
