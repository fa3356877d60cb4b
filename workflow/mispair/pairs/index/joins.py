"""How many pairs of a corpus a caption table was joined to, and how much of the table was used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from mispair.core.files import UserError
from mispair.core.metrics import Row
from mispair.pairs.captions.sorted_captions import join_of, read_sorted
from mispair.pairs.captions.user_tables import KEY
from mispair.pairs.index.books import Books, read_columns
from mispair.pairs.index.corpus import Pairs
from mispair.pairs.index.identities import text_hashes
from mispair.pairs.index.index import JOIN_VALUE
from mispair.pairs.index.policy import Fault

EXAMPLE_LENGTH = 80
"""Characters of an example in a message."""


@dataclass(frozen=True)
class JoinBooks:
    """What a caption table and the pairs of a corpus have in common.

    Attributes
    ----------
    join : str
        What joins them: ``key``, ``url``, ``sha256`` or ``json:FIELD``.
    joined, without_row : int
        Pairs that the table has a row for, and others; pairs that were rejected because they are
        not in the table are among the others.
    sharing : int
        Joined pairs whose value another joined pair has too.
    values, several, unused : int
        Values of the table, those with several captions, and those that no kept pair has.
    example, example_of_pair : str
        A value of the table, and one of a pair; empty where there is none.
    """

    join: str
    joined: int
    without_row: int
    sharing: int
    values: int
    several: int
    unused: int
    example: str
    example_of_pair: str

    @property
    def pairs(self) -> int:
        """Pairs that were looked up in the table."""
        return self.joined + self.without_row

    def rows(self) -> list[Row]:
        """Return the counts as rows of metrics; see `corpus_statistics`."""
        return [
            {"metric": f"table_{name}", "value": value, "n": n}
            for name, value, n in (
                ("pairs_joined", self.joined, self.pairs),
                ("pairs_without_row", self.without_row, self.pairs),
                ("pairs_sharing_value", self.sharing, self.joined),
                ("values_with_several_captions", self.several, self.values),
                ("values_unused", self.unused, self.values),
            )
        ]

    def check(self, least: float, table: Path) -> None:
        """Refuse a table that has a row for less than a share of the pairs, 0 to 1, or for none.

        Raises
        ------
        UserError
            If so, with the table, what joins it, the share and the settings.
        """
        if not self.pairs or (self.joined and self.joined >= least * self.pairs):
            return
        has = (
            f"a pair has {self.example_of_pair[:EXAMPLE_LENGTH]!r}"
            if self.example_of_pair
            else "no pair has such a value"
        )
        raise UserError(
            f"gather_index: {table}: the caption table has a row for {self.joined:,} of "
            f"{self.pairs:,} pairs ({100 * self.joined / self.pairs:.2f} %), joined by "
            f"{self.join}, and at least {100 * least:g} % must have one. The table has values such "
            f"as {self.example[:EXAMPLE_LENGTH]!r}, and {has}. Correct `captions`, "
            "`read_captions: join` or `read_captions: key_column`, or lower "
            "`gather_index: min_joined_share`."
        )


def join_rows(
    tables: Sequence[Path],
    least: float,
    index: Mapping[str, Path],
    pairs: Pairs,
    kept: np.ndarray,
    books: Books,
) -> list[Row]:
    """Return the rows of metrics of the user's caption table; none without a table.

    Parameters
    ----------
    tables : sequence of Path
        From `sorted_captions.write_sorted`, or none.
    least : float
        Least share of pairs that the table must have a row for, 0 to 1.
    index, pairs, kept, books
        As for `corpus_statistics.corpus_rows`.

    Raises
    ------
    UserError
        If the table has a row for too few pairs, or a file cannot be read.
    """
    rejected = books.reasons.get(Fault.NOT_IN_TABLE)
    rows = []
    for table in tables:
        joined = join_books(table, index, pairs, kept, rejected.count if rejected else 0)
        joined.check(least, table)
        rows += joined.rows()
    return rows


def join_books(
    table: Path, index: Mapping[str, Path], pairs: Pairs, kept: np.ndarray, rejected: int
) -> JoinBooks:
    """Compare a caption table with the pairs of a corpus, by 64-bit hashes of the values.

    `rejected` counts the samples that are not in the index because the table has no row for them;
    the other arguments are those of `join_rows`.
    """
    join = join_of(table)
    several, example, example_of_pair = 0, "", ""
    in_table, in_pairs = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    for values, captions in read_sorted(table):
        in_table.append(text_hashes(values))
        several += int((captions > 1).sum())
        example = example or values[0].as_py()
    for values in _values_of_pairs(join, index, pairs, kept):
        in_pairs.append(text_hashes(values))
        if len(values) and not example_of_pair:
            example_of_pair = values[0].as_py()
    table_values = np.concatenate(in_table)
    had, times = np.unique(np.concatenate(in_pairs), return_counts=True)
    joined = times[np.isin(had, table_values)]
    return JoinBooks(
        join=join,
        joined=int(joined.sum()),
        without_row=int(kept.sum() - joined.sum()) + rejected,
        sharing=int(joined[joined > 1].sum()),
        values=len(table_values),
        several=several,
        unused=len(table_values) - len(joined),
        example=example,
        example_of_pair=example_of_pair,
    )


def _values_of_pairs(
    join: str, index: Mapping[str, Path], pairs: Pairs, kept: np.ndarray
) -> Iterator[pa.ChunkedArray]:
    """Yield the values by which kept pairs may be joined, group after group, without nulls."""
    for path, start, end in zip(index.values(), pairs.starts, pairs.starts[1:], strict=False):
        if join == KEY:
            values = pa.chunked_array([pairs.keys[start:end]])
        else:
            values = read_columns(path, [JOIN_VALUE])[0][JOIN_VALUE]
        yield values.filter(pa.array(kept[start:end])).drop_null()
