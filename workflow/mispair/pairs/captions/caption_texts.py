"""The captions of a corpus: which one each pair has, and the texts behind their identities.

Identities of captions (16 hexadecimal digits) are held as 64-bit integers; texts are read from the
index of a group only when they are needed.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mispair.core import files
from mispair.core.files import UserError
from mispair.pairs.corruption.draws import streams, uniforms
from mispair.pairs.index.books import read_columns
from mispair.pairs.index.identities import caption_identities, hexadecimal, identities

BLOCK = 1 << 17
"""Keys that are held as Python strings at a time."""

CAPTIONS = pa.schema([("caption_id", pa.string()), ("caption", pa.string())])
"""Columns of `write_captions`."""


@dataclass(frozen=True)
class CaptionedPairs:
    """The pairs of a corpus, sorted by key; n is their number.

    Attributes
    ----------
    table : pyarrow.Table
        Columns ``key``, ``group``, ``row``.
    caption_ids : (n,) uint64 array
        The caption that each pair has.
    alternatives : (n, a) uint64 array
        All captions that each pair could have had, the first repeated where there are fewer than
        a; a is 1 when no pair has several.
    fingerprint : str
        Identifies the data.
    """

    table: pa.Table
    caption_ids: np.ndarray
    alternatives: np.ndarray
    fingerprint: str

    def keys(self, rows: np.ndarray) -> Iterator[str]:
        """Yield the keys at the given positions."""
        for start in range(0, len(rows), BLOCK):
            yield from self.table["key"].take(pa.array(rows[start : start + BLOCK])).to_pylist()

    def by_group(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield each group's name and the positions of its pairs, sorted by name."""
        groups = self.table["group"].combine_chunks().dictionary_encode()
        codes = groups.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(groups.dictionary)))
        parts = dict(
            zip(groups.dictionary.to_pylist(), np.split(order, ends[:-1]), strict=True)
            if len(order)
            else ()
        )
        yield from sorted(parts.items())


def read_captioned_pairs(corpus: Path, seed: int) -> CaptionedPairs:
    """Read a corpus and draw a caption for each pair that has several.

    The draw depends on the seed and the pair's key only: every scheme and rate starts from the
    same captions. Where no pair has several captions nothing is drawn. A fine-tuning may draw
    captions at each step, as LaCLIP does (``finetune_projection.draw_captions``).

    Raises
    ------
    UserError
        If the file is no corpus, or its keys are not sorted and unique.
    """
    columns = ["key", "group", "row", "caption_id", "more_caption_ids"]
    table, metadata = read_columns(corpus, columns)
    for name in ("key", "group"):
        table = table.set_column(
            table.column_names.index(name), name, table[name].cast(pa.large_string())
        )
    keys = table["key"].combine_chunks()
    if not pc.all(pc.less(keys[:-1], keys[1:])).as_py() and len(keys) > 1:
        raise UserError(
            f"{corpus}: its keys are not sorted, or not unique. Delete it and run again."
        )
    first = identities(table["caption_id"])
    lists = table["more_caption_ids"].combine_chunks()
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    alternatives = np.repeat(first[:, None], 1 + counts.max(initial=0), axis=1)
    original = first
    positions = np.flatnonzero(counts)
    if len(positions):
        further = identities(lists.flatten())
        many = counts[positions]
        rows = np.repeat(positions, many)
        nth = np.arange(len(rows)) - np.repeat(np.cumsum(many) - many, many)
        alternatives[rows, 1 + nth] = further
        taken = pa.array(positions)
        starts = streams(keys.take(taken).to_pylist(), seed, "alternative-caption")
        drawn = np.floor(uniforms(starts, 0) * (1 + many)).astype(np.int64)
        original = first.copy()
        original[positions] = alternatives[positions, drawn]
    kept = table.select(["key", "group", "row"])
    return CaptionedPairs(kept, original, alternatives, metadata.get("pairs_fingerprint", ""))


def read_texts(index: Iterable[Path], needed: np.ndarray) -> dict[int, str]:
    """Look up the texts of captions, (n,) uint64 identities, in the index of one or more groups.

    Raises
    ------
    UserError
        If a file cannot be read, or a caption is in none of them.
    """
    needed = np.unique(needed)
    texts: dict[int, str] = {}
    paths = sorted(index)
    for path in paths:
        numbers, of_file = captions_of(path, needed)
        texts.update(zip(numbers.tolist(), of_file.to_pylist(), strict=True))
    if len(texts) < len(needed):
        missing = next(number for number in needed.tolist() if number not in texts)
        raise UserError(
            f"{', '.join(map(str, paths[:3]))}{' ...' if len(paths) > 3 else ''}: no caption with "
            f"the identity {missing:016x}, which the corpus has. Delete the corpus and run again."
        )
    return texts


def captions_of(path: Path, needed: np.ndarray) -> tuple[np.ndarray, pa.Array]:
    """Return the needed captions of an index, first and further ones, each once.

    Parameters
    ----------
    path : Path
        Index table.
    needed : (n,) uint64 array
        Identities, sorted.

    Returns
    -------
    numbers : (m,) uint64 array
        Identities in the order of their first use, first captions before further ones.
    texts : (m,) array of strings, pyarrow
        The captions.
    """
    table, _ = read_columns(path, ["caption", "caption_id", "more_captions"])
    first = identities(table["caption_id"])
    further = table["more_captions"].combine_chunks().flatten().unique()
    numbers = np.concatenate([first, caption_identities(further.to_pylist())])
    texts = pa.chunked_array([*table["caption"].cast(further.type).chunks, further])
    asked_for = np.flatnonzero(_isin(numbers, needed))
    _, once = np.unique(numbers[asked_for], return_index=True)
    rows = asked_for[np.sort(once)]
    return numbers[rows], texts.take(pa.array(rows)).combine_chunks()


def write_captions(parts: Sequence[Path], index: Iterable[Path], needed: np.ndarray) -> None:
    """Write captions, each once, in the order of their first use; one group is held at a time.

    The part of a caption depends on its identity alone, not on the rest of the corpus.

    Parameters
    ----------
    parts, index : Path, sequence of Path
        The files to write, and the index of each group.
    needed : (n,) uint64 array
        Identities of the captions, sorted and distinct.
    """
    written = np.zeros(len(needed), bool)
    with ExitStack() as stack:
        temporaries = [stack.enter_context(files.replacing(path)) for path in parts]
        writers = [
            stack.enter_context(pq.ParquetWriter(path, CAPTIONS, compression="zstd"))
            for path in temporaries
        ]
        for path in index:
            numbers, texts = captions_of(path, needed)
            positions = np.searchsorted(needed, numbers)
            new = np.flatnonzero(~written[positions])
            written[positions] = True
            for part, writer in enumerate(writers):
                of_part = new[numbers[new] % len(writers) == part]
                columns = [hexadecimal(numbers[of_part]), texts.take(pa.array(of_part))]
                writer.write_table(pa.table(columns, schema=CAPTIONS))


def texts_by_id(captions: Iterable[Path], ids: Sequence[str]) -> dict[str, str]:
    """Look up captions by identity, as hexadecimal digits, in tables that `write_captions` wrote.

    Only their rows are read. An identity that is in no table is left out.
    """
    found: dict[str, str] = {}
    for path in captions if len(ids) else ():
        table = pq.read_table(path, filters=[("caption_id", "in", [*ids])])
        found |= zip(table["caption_id"].to_pylist(), table["caption"].to_pylist(), strict=True)
    return found


def _isin(numbers: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return which numbers are in a sorted array; `numpy.isin` would sort it at every call."""
    positions = np.searchsorted(members, numbers)
    positions[positions == len(members)] = 0
    return members[positions] == numbers if len(members) else np.zeros(len(numbers), bool)


def read_pictured_features(truth: Iterable[Path]) -> dict[str, list[str]]:
    """Return the features that each picture has, by key, from tables next to the shards.

    The result is empty if there is no table, or one has no ``image_features``.

    Raises
    ------
    UserError
        If a table cannot be read.
    """
    tables = [
        _features(path, "image_features", "Delete it and run again.") for path in sorted(truth)
    ]
    if None in tables:
        return {}
    return {key: names for table in tables for key, names in table or ()}


def read_named_features(truth: Iterable[Path]) -> dict[str, list[str]]:
    """Return the features that each pair's caption names, by key, from tables next to the shards.

    Raises
    ------
    UserError
        If there is no table, or one cannot be read or has no ``caption_features``.
    """
    remedy = (
        "The schemes spurious and missing need a corpus with ground-truth features, such as "
        "scenes: Parquet tables next to the shards with the columns key and caption_features. "
        "Leave these schemes out of `corrupt_captions: schemes` for this corpus."
    )
    named: dict[str, list[str]] = {}
    for path in sorted(truth):
        if (table := _features(path, "caption_features", remedy)) is None:
            raise UserError(f"{path}: has no column key or caption_features. {remedy}")
        named.update(table)
    if not named:
        raise UserError(f"corrupt_captions: there are no ground-truth features. {remedy}")
    return named


def _features(path: Path, column: str, remedy: str) -> list[tuple[str, list[str]]] | None:
    """Return key and features of each row of a table; None if it has no such column."""
    try:
        with pq.ParquetFile(path) as opened:
            if not {"key", column} <= set(opened.schema_arrow.names):
                return None
            table = opened.read(columns=["key", column])
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(f"{path}: cannot be read as Parquet ({error}). {remedy}") from error
    lists = (names or [] for names in table[column].to_pylist())
    return list(zip(table["key"].to_pylist(), lists, strict=True))
