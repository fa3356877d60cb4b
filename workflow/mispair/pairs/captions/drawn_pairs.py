"""Pairs of a corpus that are drawn by key, from some of its groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd


def drawn_pairs(
    corpus: Path, index: Sequence[Path], columns: Sequence[str], most: int, *name: object
) -> pd.DataFrame:
    """Return what the index records of some pairs of the corpus, drawn by key and sorted by it.

    Parameters
    ----------
    corpus : Path
        Table of all pairs that the corpus keeps: ``key``, ``group`` and ``row``.
    index : sequence of Path
        The index of some groups, ``GROUP.parquet``; only their pairs are drawn.
    columns : sequence of str
        Columns of the index, with ``key``.
    most : int
        Largest number of pairs.
    *name
        Purpose of the draw, such as a seed and a step; other names draw other pairs.
    """
    import numpy as np
    import pyarrow.parquet as pq

    from mispair.pairs.corruption.draws import streams
    from mispair.pairs.index.books import read_columns

    paths = {path.stem: path for path in index}
    tables = [pd.DataFrame(columns=[*columns])]
    if paths:
        # Filtered while reading: a corpus may have many times the pairs of the groups given.
        given = [("group", "in", [*paths])]
        kept = pq.read_table(corpus, columns=["key", "group", "row"], filters=given).to_pandas()
        order = np.argsort(streams(kept["key"], *name), kind="stable")
        for group, rows in kept.iloc[order[:most]].groupby("group"):
            table, _ = read_columns(paths[str(group)], [*dict.fromkeys(["row", *columns])])
            chosen = table.to_pandas().set_index("row").loc[rows["row"]]
            tables.append(chosen.reset_index()[[*columns]])
    return pd.concat(tables[1:] or tables).sort_values("key", ignore_index=True)
