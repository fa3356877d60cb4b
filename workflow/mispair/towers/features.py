"""Cached features of frozen towers, gathered for one pairing of images and captions."""

from __future__ import annotations

import dataclasses
import math
import mmap
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from mispair.core import files
from mispair.pairs.corruption.draws import SOURCE, column
from mispair.pairs.index.books import read_columns

BLOCK = 1024
"""Rows copied at a time, so that a copy does not need the memory of another part."""
MAPPED_FROM = 1 << 29
"""Bytes of gathered features from which on they are in a file and not in memory."""


@dataclass(frozen=True)
class FeaturePart:
    """One file of cached features, of images or of texts, and the table of its rows.

    Attributes
    ----------
    name : str
        File name, for messages.
    rows : DataFrame
        ``kind`` ("image" or "text"), ``id`` (key or caption id) and ``row`` (first row in the
        array of that kind).
    image_features : (i * crops, d_image) array
        Images in the order of the index, the crops of an image side by side; empty in a part of
        texts.
    text_features : (c, d_text) array
        Distinct captions; empty in a part of images.
    metadata : mapping
        Of the file: ``towers`` (fingerprint), ``precision`` and, of images, ``crops``.
    """

    name: str
    rows: pd.DataFrame
    image_features: np.ndarray
    text_features: np.ndarray
    metadata: Mapping[str, str]

    @property
    def crops(self) -> int:
        """Crops of each image."""
        return int(self.metadata.get("crops", "1"))

    def images(self, rows: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Return the features of all images, (images, crops, d_image), in the order of the index.

        Parameters
        ----------
        rows : (m,) int array
            Rows of some images in the index.
        keys : (m,) array of str
            Their keys, which the features must have in these rows.

        Raises
        ------
        ValueError
            If features and index do not match.
        """
        table = self.rows[self.rows["kind"] == "image"].sort_values("row")
        held = table["id"].to_numpy()
        if not np.array_equal(table["row"], np.arange(len(held)) * self.crops) or (
            len(self.image_features) != len(held) * self.crops
        ):
            raise ValueError(
                f"{self.name} has {len(self.image_features)} rows of images, where its table lists "
                f"{len(held)} images of {self.crops} crops"
            )
        inside = (rows >= 0) & (rows < len(held))
        agree = inside.copy()
        agree[inside] = held[rows[inside]] == keys[inside]
        if not agree.all():
            wrong = int(np.argmin(agree))
            held_name = repr(held[rows[wrong]]) if inside[wrong] else "no image"
            raise ValueError(
                f"{self.name} and the pairing are out of step: the pairing has image "
                f"{keys[wrong]!r} in row {rows[wrong]}, where the features have {held_name}. "
                "Run encode_features and corrupt_captions again"
            )
        return self.image_features.reshape(len(held), self.crops, -1)


@dataclass(frozen=True)
class PairedFeatures:
    """Features of one or more draws of n pairs, each distinct image and caption held once.

    Attributes
    ----------
    image_features : (m * crops, d_image) array
        Pre-projection features of the images that a draw uses, in the order of the pairing, the
        crops of an image side by side. They keep the precision of the parts.
    text_features : (c, d_text) array
        Pre-projection features of the captions that a draw uses, in the order of their first use.
    text_rows : (draws, n) int64 array
        Row of `text_features` of each pair.
    crops : int
        Crops of each image.
    image_rows : (draws, n) int64 array, optional
        Number of the image of each pair; None where pair i has image i in every draw.
    keeps_caption : (draws, n) bool array, optional
        Whether the pair has its image's own text; None where every pair has.
    weights : (draws, n) float32 array, optional
        Weight of each pair in a loss, not negative; None where all weigh the same.
    choices : CaptionChoices, optional
        Rows of the captions among which that of each pair is drawn at each step; None where every
        pair always has the caption of `text_rows`.
    """

    image_features: np.ndarray
    text_features: np.ndarray
    text_rows: np.ndarray
    crops: int = 1
    image_rows: np.ndarray | None = None
    keeps_caption: np.ndarray | None = None
    weights: np.ndarray | None = None
    choices: CaptionChoices | None = None

    @property
    def pairs(self) -> int:
        """Pairs of a draw."""
        return int(self.text_rows.shape[1])

    def of_draws(self, some: slice) -> PairedFeatures:
        """Return the same features with some of the draws of pairs; a single draw serves all."""
        if len(self.text_rows) == 1:
            return self
        return dataclasses.replace(
            self,
            text_rows=self.text_rows[some],
            image_rows=None if self.image_rows is None else self.image_rows[some],
            keeps_caption=None if self.keeps_caption is None else self.keeps_caption[some],
            weights=None if self.weights is None else self.weights[some],
            choices=None if self.choices is None else self.choices.of_draws(some),
        )


def read_part(features: Path, rows: Path) -> FeaturePart:
    """Read a file of features and the table of its rows."""
    tensors, metadata = files.read_tensors(features)
    table, _ = files.read_parquet(rows)
    images, texts = (
        tensors.get(f"{kind}_features", np.empty((0, 0), np.float32)) for kind in ("image", "text")
    )
    return FeaturePart(features.name, table, images, texts, metadata)


def parts_of_towers(
    features: Sequence[Path], rows: Sequence[Path], towers: str | None
) -> dict[str, Callable[[], FeaturePart]]:
    """Return the loaders of parts for `gather`; all parts must be of the same towers.

    Parameters
    ----------
    features, rows : sequence of Path
        Files of features, and the tables of their rows, which have the same names.
    towers : str
        Fingerprint of the towers.

    Raises
    ------
    ValueError
        If a file has no table or a table no file; from a loader, if it is of other towers.
    """
    tables = {path.stem: path for path in rows}
    if unpaired := tables.keys() ^ {path.stem for path in features}:
        raise ValueError(
            "features and their tables of rows go by the same names, but "
            f"{sorted(unpaired)} is given as one of them only"
        )

    def load(path: Path) -> FeaturePart:
        part = read_part(path, tables[path.stem])
        if part.metadata.get("towers") != towers:
            raise ValueError(
                f"{path} comes from other towers than the projections; delete it and run again"
            )
        return part

    return {path.stem: partial(load, path) for path in features}


def gather(
    parts: Mapping[str, Callable[[], FeaturePart]],
    pairing: pd.DataFrame,
    draws: Sequence[np.ndarray] | None = None,
    choices: CaptionChoices | None = None,
    scratch: Path | None = None,
) -> PairedFeatures:
    """Assemble the features of a pairing from the parts in which they are cached.

    Parts are loaded one at a time in the order of their names, and only what the pairing uses is
    kept, so memory is that of the result, one part and the names. A caption in several parts is
    taken from the first, so the order of `parts` changes nothing.

    With a folder for `scratch`, large results are there, in files without a name, which the system
    reads where they are used and removes with the process. Memory is then that of the names: about
    200 bytes a pair.

    Parameters
    ----------
    parts : mapping of str to callable
        Loads the part of each group of shards, and those of texts.
    pairing : DataFrame
        ``key``, the ``group`` and ``row`` of its image, and for each draw ``caption_id`` and
        ``text_changed``, in the columns that `mispair.pairs.corruption.draws.column` names.
    draws : sequence of (n,) int arrays, optional
        Positions of the pairs of each draw in the pairing, ascending, as many in each; None takes
        one draw, of all pairs.
    choices : CaptionChoices, optional
        Identities of further captions that the pairs may have, for the same draws.
    scratch : Path, optional
        Folder on a disk with room for the result.

    Raises
    ------
    UserError
        If the disk has no room.
    ValueError
        If the pairing is empty; parts differ in towers, crops, or precision of images or texts;
        the pairing names another image than the features; an image or a caption is in no part; or
        a used feature is not finite.
    """
    if pairing.empty:
        raise ValueError("the pairing holds no pair")
    chosen = [np.arange(len(pairing))] if draws is None else list(draws)
    ids = [pairing[column("caption_id", draw)].iloc[rows] for draw, rows in enumerate(chosen)]
    if choices is not None:
        ids.append(pd.Series(choices.captions, dtype=ids[0].dtype))
    codes, captions = _numbered(ids)
    used = np.unique(np.concatenate(chosen))
    same = all(len(rows) == len(used) for rows in chosen)
    collector = _Collector(pairing[["key", "group", "row"]].iloc[used], captions, scratch)
    for name in sorted(parts):
        # No variable holds the part: it would stay in memory while the next one is loaded.
        collector.take(name, parts[name]())
    images, texts, crops = collector.finished()
    image_rows = None if same else np.stack([np.searchsorted(used, rows) for rows in chosen])
    text_rows = np.stack(codes[: len(chosen)])
    if choices is not None:
        choices = dataclasses.replace(choices, captions=codes[-1])
    changed = [pairing[column("text_changed", draw)] for draw in range(len(chosen))]
    keeps = [~values.to_numpy(bool)[rows] for values, rows in zip(changed, chosen, strict=True)]
    return PairedFeatures(
        images, texts, text_rows, crops, image_rows, np.stack(keeps), choices=choices
    )


class _Collector:
    """Fills the features of a pairing from many parts."""

    def __init__(self, pairing: pd.DataFrame, captions: _Places, scratch: Path | None) -> None:
        self.scratch = scratch
        self.keys = pairing["key"].array
        self.rows = pairing["row"].to_numpy()
        codes, groups = pd.factorize(pairing["group"])
        by_group = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        self.rows_of_group = dict(zip(groups, by_group, strict=True))
        self.places = captions
        self.found_image = np.zeros(len(self.keys), dtype=bool)
        self.found_text = np.zeros(len(captions.names), dtype=bool)
        self.image = np.empty((0, 0, 0))
        self.text = np.empty((0, 0))
        self.seen: dict[str, tuple[str, str]] = {}

    def take(self, group: str, part: FeaturePart) -> None:
        """Take what the pairing uses from a part."""
        self._refuse_what_differs("towers", part.metadata.get("towers", "none"), part.name)
        for kind, features in (("images", part.image_features), ("texts", part.text_features)):
            if len(features):
                precision = f"{part.metadata.get('precision', 'none')}, {features.dtype}"
                self._refuse_what_differs(f"precision of {kind}", precision, part.name)
        if len(part.image_features):
            self._refuse_what_differs("crops", str(part.crops), part.name)
        if group in self.rows_of_group:
            self._take_images(self.rows_of_group[group], part)
        self._take_texts(part)

    def _refuse_what_differs(self, fact: str, value: str, name: str) -> None:
        first, expected = self.seen.setdefault(fact, (name, value))
        if value != expected:
            raise ValueError(
                f"{first} and {name} differ in {fact} ({expected} and {value}): features of one "
                "run are made with one setting. Delete the file that is out of date, and run again"
            )

    def _take_images(self, rows_of_pairs: np.ndarray, part: FeaturePart) -> None:
        rows, keys = self.rows[rows_of_pairs], self.keys[rows_of_pairs].to_numpy()
        source = part.images(rows, keys)
        if not self.found_image.any():
            shape = len(self.keys), *source.shape[1:]
            self.image = _space(shape, source.dtype, self.scratch)
        _copy(source, rows, self.image, rows_of_pairs,
              lambda row: f"image {keys[np.argmax(rows == row)]!r} in {part.name}")  # fmt: skip
        self.found_image[rows_of_pairs] = True

    def _take_texts(self, part: FeaturePart) -> None:
        table = part.rows[part.rows["kind"] == "text"]
        if len(table) != len(part.text_features):
            raise ValueError(
                f"{part.name} has {len(part.text_features)} texts, its table {len(table)}"
            )
        positions = self.places.of(table["id"])
        new = positions >= 0
        new[new] = ~self.found_text[positions[new]]
        if not self.found_text.any():
            shape = (len(self.places.names), part.text_features.shape[1])
            self.text = _space(shape, part.text_features.dtype, self.scratch)
        rows, positions = table["row"].to_numpy()[new], positions[new]
        _copy(
            part.text_features,
            rows,
            self.text,
            positions,
            lambda row: f"text {table.loc[table['row'] == row, 'id'].iloc[0]!r} in {part.name}",
        )
        self.found_text[positions] = True

    def finished(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the features of images and texts, which must be complete, and the crops."""
        for kind, names, is_filled in (
            ("image", self.keys, self.found_image),
            ("text", self.places.names, self.found_text),
        ):
            if not is_filled.all():
                raise ValueError(
                    f"the features hold no {kind} {names[~is_filled][0]!r}"
                    f" ({int((~is_filled).sum())} of {len(is_filled)} are missing)"
                )
        images, crops, width = self.image.shape
        return self.image.reshape(images * crops, width), self.text, crops


def _numbered(ids: Sequence[pd.Series]) -> tuple[list[np.ndarray], _Places]:
    """Return the numbers of captions in the order of their first use, and the captions."""
    captions, codes = _Places(pd.Index([], dtype=ids[0].dtype)), []
    for some in ids:  # one after another: a table of all would take their memory again
        numbers = captions.of(some)
        new = numbers < 0
        if new.any():
            added, names = pd.factorize(some[new])
            numbers[new] = len(captions.names) + added
            captions = _Places(captions.names.append(pd.Index(names)))
        codes.append(numbers)
    return codes, captions


class _Places:
    """The places of distinct names in a list, found by bisection: 24 bytes a name of 16 letters.

    A hash table of pandas takes 150.
    """

    def __init__(self, names: pd.Index) -> None:
        self.names = names
        together = _in_bytes(names)
        self.order = np.argsort(together)
        self.sorted = together[self.order]

    def of(self, names: pd.Series) -> np.ndarray:
        """Return the place of each name, (n,) int64; -1 where it is not in the list."""
        if not len(self.sorted):
            return np.full(len(names), -1)
        asked = _in_bytes(names)
        found = np.minimum(np.searchsorted(self.sorted, asked), len(self.sorted) - 1)
        return np.where(self.sorted[found] == asked, self.order[found], -1)


def _in_bytes(names: pd.Index | pd.Series) -> np.ndarray:
    """Return names as UTF-8, (n,) array of bytes of one length."""
    texts = pa.array(names, pa.large_string())
    width = max(1, pc.max(pc.binary_length(texts)).as_py() or 1)
    encoded = np.empty(len(texts), f"S{width}")
    for start in range(0, len(texts), BLOCK):
        some = texts[start : start + BLOCK].cast(pa.large_binary())
        encoded[start : start + BLOCK] = some.to_pylist()
    return encoded


def _space(shape: tuple[int, ...], dtype: np.dtype, scratch: Path | None) -> np.ndarray:
    """Return an array to be filled: in memory, or if it is large in a file without a name."""
    size = math.prod(shape) * dtype.itemsize
    if scratch is None or size < MAPPED_FROM:
        return np.empty(shape, dtype)
    try:
        with tempfile.TemporaryFile(dir=scratch) as opened:
            space = files.mapped(opened, dtype, shape)
    except OSError as error:
        raise files.UserError(
            f"{scratch}: {size / 1e9:.1f} GB of features cannot be put together here "
            f"({error.strerror}). Make room on this disk."
        ) from error
    pages: Any = space.base
    pages.madvise(mmap.MADV_RANDOM)  # batches read single rows
    return space


def _copy(
    source: np.ndarray,
    rows: np.ndarray,
    target: np.ndarray,
    targets: np.ndarray,
    name: Callable[[int], str],
) -> None:
    """Copy rows of one array into places of another, and refuse what is not finite."""
    for start in range(0, len(rows), BLOCK):
        chosen = rows[start : start + BLOCK]
        block = source[chosen]
        finite = _finite(block).reshape(len(block), -1).all(axis=1)
        if not finite.all():
            raise ValueError(f"the feature of {name(chosen[np.argmin(finite)])} is not finite")
        target[targets[start : start + BLOCK]] = block


def _finite(array: np.ndarray) -> np.ndarray:
    """Return where an array is finite; numpy is slow with halves, and fast with their bits."""
    if array.dtype == np.float16:
        exponent = np.uint16(0x7C00)  # all of its bits are set in infinities and in NaN
        return np.not_equal(array.view(np.uint16) & exponent, exponent)
    return np.isfinite(array)


# The captions among which a pair's caption is drawn at each step of a fine-tuning.


@dataclass(frozen=True)
class CaptionChoices:
    """The captions of each pair in one or more draws of n pairs.

    The memory is 16 bytes for each pair and draw, and 8 bytes for each of the m captions as a row.

    Attributes
    ----------
    captions : (m,) array
        Captions, grouped by pair: their identities (str), or their rows (int64) in the features of
        captions.
    starts : (draws, n) int64 array
        Position in `captions` of the first caption that each pair may have; 0 if there is none.
    counts : (draws, n) int64 array
        Number of these captions; 0 where the pair always has the caption of its pairing.
    """

    captions: np.ndarray
    starts: np.ndarray
    counts: np.ndarray

    def of_draws(self, some: slice) -> CaptionChoices:
        """Return the choices of some of the draws."""
        return dataclasses.replace(self, starts=self.starts[some], counts=self.counts[some])


def read_choices(
    corpus: Path, pairing: pd.DataFrame, chosen: Sequence[np.ndarray]
) -> CaptionChoices | None:
    """Return the captions, by identity, that each pair of a pairing may have; None if all have one.

    These are the captions of the pair that the pairing's caption came from. A caption that a scheme
    or a captioner wrote came from no pair and has no alternatives.

    Parameters
    ----------
    corpus : Path
        Corpus of the pairing.
    pairing : DataFrame
        ``key``, and for each draw ``caption_source``.
    chosen : sequence of (n,) int arrays
        Positions of the pairs of each draw in the pairing.

    Raises
    ------
    ValueError
        If the pairing is of other pairs, or older than the column ``caption_source``.
    """
    table, _ = read_columns(corpus, ["key", "caption_id", "more_caption_ids"])
    further = table["more_caption_ids"].combine_chunks()
    several = pc.fill_null(pc.list_value_length(further), 0).to_numpy(zero_copy_only=False)
    if not several.any():
        return None
    keys = pa.Table.from_pandas(pairing[["key"]], preserve_index=False)["key"]
    if SOURCE not in pairing or not table["key"].cast(pa.large_string()).equals(
        keys.cast(pa.large_string())
    ):
        raise ValueError(
            f"the pairing does not have the pairs of {corpus} and the pair that each caption came "
            "from (caption_source). Run corrupt_captions again"
        )
    sources = np.stack(
        [pairing[column(SOURCE, draw)].to_numpy()[rows] for draw, rows in enumerate(chosen)]
    )
    drawn = (sources >= 0) & (several[sources] > 0)
    if not drawn.any():
        return None
    used, numbers = np.unique(sources[drawn], return_inverse=True)
    lengths = 1 + several[used].astype(np.int64)
    begins = np.cumsum(lengths) - lengths
    captions = np.empty(lengths.sum(), object)
    is_first = np.zeros(len(captions), bool)
    is_first[begins] = True
    captions[is_first] = table["caption_id"].take(pa.array(used)).to_numpy()
    captions[~is_first] = further.take(pa.array(used)).flatten().to_numpy(zero_copy_only=False)
    starts, counts = np.zeros((2, *sources.shape), np.int64)
    starts[drawn], counts[drawn] = begins[numbers], lengths[numbers]
    return CaptionChoices(captions, starts, counts)
