"""The best others of every row as scores arrive, and the table of captions' most similar others."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mispair.core.files import UserError
from mispair.core.resume import Keeper
from mispair.pairs.index.books import read_columns
from mispair.pairs.index.identities import hexadecimal, identities

# The k best others of every row, updated as scores arrive in any portions.

NOBODY = 2**32 - 1
"""Index in an empty place; it is larger than the number of any row."""

Neighbours = tuple[np.ndarray, np.ndarray]
"""Others (n, k), int64, best first, and their scores (n, k), float32; `NOBODY` has -inf."""

PORTION = 1 << 16
"""Rows whose neighbours are yielded together."""

RECALL = 0.98
"""Share of the nearest that must be found, by the lower end of its 95 % interval."""

QUERIES = 2_000
"""Random rows on which the recall is measured."""

_AT_ONCE = 64
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Found:
    """Neighbours of all rows, and how they were found.

    Attributes
    ----------
    portions : iterator of Neighbours
        As `similarity.nearest_rows` yields them.
    recall : float
        Share of the exact neighbours of random rows that are among those found.
    queries : int
        Number of these rows.
    effort : int
        Number of cells that each row visited, or of texts that may share a key.
    """

    portions: Iterator[Neighbours]
    recall: float
    queries: int
    effort: int


def measured_recall(scores: np.ndarray, nearest: np.ndarray) -> tuple[float, float]:
    """Return the share of the nearest of some rows that have been found; ties count alike.

    Parameters
    ----------
    scores, nearest : (queries, k) arrays
        Scores that were found, and those of all others, largest first; -inf where there is none.

    Returns
    -------
    recall : float
        1 if no row has another.
    at_least : float
        Lower end of its 95 % interval, where the rows are a sample of `QUERIES`.
    """
    there = np.isfinite(nearest).sum(axis=1)
    if not there.any():
        return 1.0, 1.0
    last = np.where(np.isfinite(nearest), nearest, np.inf).min(axis=1, keepdims=True)
    found = np.minimum((scores >= last - _ROUNDING).sum(axis=1), there)
    shares = found[there > 0] / there[there > 0]
    error = float(shares.std()) / math.sqrt(len(shares)) if len(nearest) == QUERIES else 0.0
    return float(shares.mean()), float(shares.mean()) - 1.96 * error


class Nearest:
    """Running best k of each of `n` rows: larger scores first, equal ones by smaller index.

    A score and an index form one int64, larger if better. Its upper half has the bits of the
    float32; they compare like an integer once those of negative numbers are flipped. Its lower half
    has the index, counted down. So a plain sort breaks ties, always in the same way.

    Memory is 8 k + 4 bytes a row.
    """

    def __init__(self, n: int, k: int) -> None:
        if n >= NOBODY:
            raise ValueError(f"{n} rows are more than 32 bits can number")
        self.capacity = k
        self.floor = np.full(n, -np.inf, dtype=np.float32)
        """Score of each row's last place. A useful offer is larger, or equal with a smaller index.
        """
        self._keys = np.full((n, k), _EMPTY)  # ascending: the first is the next to go

    def resume(self, keeper: Keeper[np.ndarray] | None) -> int:
        """Restore the state of a keeper; return how many products had been offered by then."""
        state = keeper.load() if keeper is not None else None
        if state is None:
            return 0
        self._keys = state["keys"]
        self.floor = _unpack(self._keys[:, 0])[1]
        return int(state["done"])

    def keep(self, keeper: Keeper[np.ndarray] | None, done: int) -> None:
        """Give a keeper the state after `done` products, if it is due."""
        if keeper is not None and keeper.due():
            keeper.save({"keys": self._keys, "done": np.array(done)})

    def offer(self, rows: np.ndarray, candidates: np.ndarray, scores: np.ndarray) -> None:
        """Offer candidates for places in some rows.

        Parameters
        ----------
        rows, candidates : (m,) int arrays
            Rows, and the candidate for each; no candidate may be offered to one row twice.
        scores : (m,) float array
            Rounded to float32.
        """
        if not len(rows):
            return
        order = np.argsort(rows, kind="stable")
        keys = _pack(scores[order], candidates[order])
        touched, start, count = np.unique(rows[order], return_index=True, return_counts=True)
        # In turns: one row with very many offers would make the table wide for all.
        for done in range(0, int(count.max()), _AT_ONCE):
            left = np.minimum(count - done, _AT_ONCE)
            open_rows = left > 0
            columns = np.arange(left.max())
            source = (start[open_rows] + done)[:, None] + columns
            offered = columns < left[open_rows, None]
            portion = np.where(offered, keys[np.where(offered, source, 0)], _EMPTY)
            table = np.concatenate([self._keys[touched[open_rows]], portion], axis=1)
            table.sort(axis=1)
            self._keys[touched[open_rows]] = table[:, -self.capacity :]
        self.floor[touched] = _unpack(self._keys[touched, 0])[1]

    def best(self, rows: slice | np.ndarray) -> Neighbours:
        """Return the best of some rows."""
        return _unpack(self._keys[rows][:, ::-1])

    def portions(self) -> Iterator[Neighbours]:
        """Yield the best of all rows in their order, `PORTION` at a time."""
        for start in range(0, len(self._keys), PORTION):
            yield self.best(slice(start, start + PORTION))


def best_first(candidates: np.ndarray, scores: np.ndarray, k: int) -> Neighbours:
    """Return the k best of each row's candidates (n, c), in the order that `Nearest` keeps."""
    keys = _pack(scores, candidates)
    keys.sort(axis=1)
    return _unpack(keys[:, ::-1][:, :k])


def _pack(scores: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    # Adding zero turns -0 into 0: they are equal, but their bits differ.
    bits = (scores.astype(np.float32) + np.float32(0)).view(np.int32)
    return (_flip(bits).astype(np.int64) << 32) | (NOBODY - candidates)


def _unpack(keys: np.ndarray) -> Neighbours:
    return NOBODY - (keys & NOBODY), _flip((keys >> 32).astype(np.int32)).view(np.float32)


def _flip(bits: np.ndarray) -> np.ndarray:
    return np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits)


_EMPTY = _pack(np.array([-np.inf]), np.array([NOBODY]))[0]


SIMILAR = pa.schema(
    [
        ("caption_id", pa.string()),
        ("neighbour_ids", pa.list_(pa.string())),
        ("similarities", pa.list_(pa.float32())),
    ]
)
"""Columns: a caption, the others most similar to it, best first, and their similarities."""


def read_distinct_captions(corpus: Path) -> np.ndarray:
    """Return the identities of all captions of a corpus, first and further ones, sorted, uint64.

    Raises
    ------
    UserError
        If the file is no corpus.
    """
    table, _ = read_columns(corpus, ["caption_id", "more_caption_ids"])
    further = [part.flatten().cast(pa.string()) for part in table["more_caption_ids"].chunks]
    try:
        first, more = (
            identities(table["caption_id"]),
            identities(pa.chunked_array(further, pa.string())),
        )
        return np.union1d(first, more)
    except ValueError as error:
        raise UserError(f"{corpus}: {error}. Delete it and run again.") from error


def write_similar(
    path: Path, captions: np.ndarray, portions: Iterable[Neighbours], facts: dict[str, str]
) -> None:
    """Write the table as Parquet, portion by portion, with facts of the search as its metadata.

    `captions` are the (n,) uint64 identities. A portion holds the neighbours of consecutive
    captions, as positions in `captions`, and their similarities.
    """
    schema = SIMILAR.with_metadata(facts)
    start = 0
    # Most identities of a portion differ: a dictionary would be built and thrown away.
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=False) as writer:
        for neighbours, similarities in portions:
            present = neighbours != NOBODY
            offsets = pa.array(np.append(0, present.sum(axis=1).cumsum()).astype(np.int32))
            columns = [
                hexadecimal(captions[start : start + len(neighbours)]),
                pa.ListArray.from_arrays(offsets, hexadecimal(captions[neighbours[present]])),
                pa.ListArray.from_arrays(offsets, pa.array(similarities[present], pa.float32())),
            ]
            writer.write_table(pa.table(columns, schema=schema))
            start += len(neighbours)


def read_similar(similar: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table of `write_similar` in batches.

    Raises
    ------
    UserError
        If it cannot be read, or lacks a column.
    """
    fault = f"{similar}: cannot be read as a table of similar captions; delete it and run again"
    try:
        with pq.ParquetFile(similar) as opened:
            if missing := sorted(set(SIMILAR.names) - set(opened.schema_arrow.names)):
                raise UserError(f"{fault} (it has no {', '.join(missing)}).")
            yield from opened.iter_batches(columns=SIMILAR.names)
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(f"{fault} ({error}).") from error
