"""How many pairs of a corpus a caption table was joined to, and how much of the table was used."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from mispair.core.files import UserError
from mispair.core.metrics import Row
from mispair.pairs.captions.sorted_captions import join_of, read_sorted
from mispair.pairs.captions.table_files import KEY
from mispair.pairs.index.books import Books, read_columns
from mispair.pairs.index.corpus import Pairs
from mispair.pairs.index.faults import Fault
from mispair.pairs.index.identities import text_hashes
from mispair.pairs.index.index import JOIN_VALUE

EXAMPLE_LENGTH = 80
"""Characters of an example in a message."""


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
    absent = rejected.count if rejected else 0
    return [row for table in tables for row in _rows(table, least, index, pairs, kept, absent)]


def _rows(
    table: Path,
    least: float,
    index: Mapping[str, Path],
    pairs: Pairs,
    kept: np.ndarray,
    rejected: int,
) -> list[Row]:
    """Compare a caption table with the pairs of a corpus, by 64-bit hashes of the values.

    `rejected` pairs are not in the index because the table has no row for them. They are among the
    pairs without a row.
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
    of_joined = times[np.isin(had, table_values)]
    joined, looked_up = int(of_joined.sum()), int(kept.sum()) + rejected
    if looked_up and (not joined or joined < least * looked_up):
        has = (
            f"a pair has {example_of_pair[:EXAMPLE_LENGTH]!r}"
            if example_of_pair
            else "no pair has such a value"
        )
        raise UserError(
            f"gather_index: {table}: the caption table has a row for {joined:,} of "
            f"{looked_up:,} pairs ({100 * joined / looked_up:.2f} %), joined by "
            f"{join}, and at least {100 * least:g} % must have one. The table has values such "
            f"as {example[:EXAMPLE_LENGTH]!r}, and {has}. Correct `captions`, "
            "`read_captions: join` or `read_captions: key_column`, or lower "
            "`gather_index: min_joined_share`."
        )
    return [
        {"metric": f"table_{name}", "value": value, "n": n}
        for name, value, n in (
            ("pairs_joined", joined, looked_up),
            ("pairs_without_row", looked_up - joined, looked_up),
            ("pairs_sharing_value", int(of_joined[of_joined > 1].sum()), joined),
            ("values_with_several_captions", several, len(table_values)),
            ("values_unused", len(table_values) - len(of_joined), len(table_values)),
        )
    ]


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
