"""Tables as they are printed, and the formats of their cells."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from mispair.core.words import MISSING, interval, number, significant


@dataclass(frozen=True)
class Table:
    """A table as it is printed: a warning above, caption, heads, cells, a remark below.

    ``section`` is the section of a study's page; a ``folded`` table is opened by a click.
    """

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remark: str = ""
    folded: bool = False
    section: str = ""
    warning: str = ""


def mean_and_spread(values: pd.Series, digits: int, counted: bool = True) -> str:
    """Format mean ± standard deviation and the number of runs, with unbreakable spaces."""
    values = values.dropna()
    if values.empty:
        return MISSING
    text = number(values.mean(), digits)
    if len(values) > 1:
        text += f" ± {number(values.std(), digits)}"
    if counted:
        text += f" (n = {len(values)})"
    return text.replace(" ", "\u00a0")


def with_interval(rows: pd.DataFrame, digits: int = 3) -> str:
    """Format the value of a single row with its interval, or mean ± deviation of several."""
    if len(rows) != 1:
        return mean_and_spread(rows["value"], digits, counted=False)
    value, low, high = (float(rows[name].iloc[0]) for name in ("value", "low", "high"))
    if not math.isfinite(low + high):
        return mean_and_spread(rows["value"], digits, counted=False)
    return f"{number(value, digits)} ({interval(low, high, digits)})".replace(" ", "\u00a0")


def or_dash(value: float, digits: int, sign: bool = False) -> str:
    """Format a number, or a dash if it was not measured."""
    return number(value, digits, sign) if math.isfinite(value) else "–"


def effect_cell(value: float, low: float, high: float) -> str:
    """Format an effect with its limits, if it has any.

    Examples
    --------
    >>> effect_cell(0.5, 0.25, 0.75), effect_cell(0.5, math.nan, math.nan)
    ('+0.5000 (+0.2500 to +0.7500)', '+0.5000')
    """
    if not math.isfinite(value):
        return "–"
    limits = f" ({significant(low, sign=True)} to {significant(high, sign=True)})"
    return significant(value, sign=True) + (limits if math.isfinite(low + high) else "")
