"""Wrong captions and what a selection leaves out, by groups such as scripts and sources."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd

from mispair.core.metrics import Row

FIELDS = "group_"
"""What names of columns of groups begin with, in the table of pairs."""

SCRIPT, SOURCE = f"{FIELDS}script", f"{FIELDS}source"

LEAST_PAIRS, MOST_GROUPS = 20, 12
"""Pairs of a group of its own, at least; groups of a field, at most. Others are one group."""

OTHERS = "all others"


def sources_of(keys: pd.Series) -> pd.Series:
    """Return the source of each key: what is before its first slash; "" without any source.

    Examples
    --------
    >>> sources_of(pd.Series(["web/0001", "book/0002", "book/0003"])).tolist()
    ['web', 'book', 'book']
    >>> sources_of(pd.Series(["web/0001", "0002"])).tolist()
    ['', '']
    """
    parts = keys.str.partition("/")
    return parts[0] if parts[1].ne("").all() else pd.Series("", keys.index)


def group_rows(table: pd.DataFrame, left_out: np.ndarray) -> list[Row]:
    """Return rates of each group of n pairs, where a field has several groups.

    ``group_pairs`` is the number of pairs, ``group_wrong`` the expected share of wrong captions,
    ``group_removed`` the share that is left out, ``group_wins`` how often captions beat random
    ones, and ``group_right_lost`` the expected share of right captions that is left out.

    Parameters
    ----------
    table : DataFrame
        Pairs: ``key``, ``probability``, ``p_value``, and a column of each field, whose name
        begins with `FIELDS`.
    left_out : (n,) bool array
        Pairs that a selection leaves out.
    """
    chance = table["probability"].to_numpy(float)
    wins = 1 - table["p_value"].to_numpy(float)
    rows: list[Row] = []
    table = table.assign(**{SOURCE: sources_of(table["key"])})
    for field in table.columns[table.columns.str.startswith(FIELDS)]:
        groups = _merged(table[field].to_numpy(object))
        names = [name for name, _ in Counter(groups.tolist()).most_common()]
        if len(names) < 2:
            continue
        for group in names:
            of = groups == group
            right = float((1 - chance[of]).sum())
            values = {
                "group_pairs": int(of.sum()),
                "group_wrong": float(chance[of].mean()),
                "group_wins": float(wins[of].mean()),
                "group_removed": float(left_out[of].mean()),
                "group_right_lost": float((1 - chance[of & left_out]).sum()) / max(right, 1e-9),
            }
            about = {"word": field.removeprefix(FIELDS), "text": group, "n": int(of.sum())}
            rows += [
                {"metric": metric, **about, "value": value} for metric, value in values.items()
            ]
    return rows


def _merged(groups: np.ndarray) -> np.ndarray:
    """Return groups with small ones, and those beyond the largest, as one."""
    sizes = Counter(groups.tolist()).most_common()
    kept = {name for name, size in sizes[:MOST_GROUPS] if size >= LEAST_PAIRS}
    return np.array([name if name in kept else OTHERS for name in groups.tolist()], object)
