"""Tables of the report: cells stay texts and numbers until they are printed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from tabulate import tabulate

from mispair.core.words import MISSING, number, percent, significant

Form = int | str | Callable[[float], str]
"""Decimal places, a format of Python such as ``g``, or a function such as `words.duration`.

A share is printed by `words.percent`; ``.1%`` is this with one place.
"""


@dataclass(frozen=True)
class Number:
    """A number with its uncertainty and its format.

    Attributes
    ----------
    value, low, high, spread : float or None
        The number, its limits and its standard deviation; None, also for NaN, if not measured.
        Limits without a number are printed as an interval, and so is ±.
    form : int, str or callable
        See `Form`.
    sign : bool
        Whether positive numbers and limits have a plus sign.
    unit : str
        Printed after the number; usually the head of the column names the unit.
    n : int or None
        Number of runs.
    mark : str
        Printed last, such as a star.
    beside : Number or None
        A second number, printed in square brackets.
    """

    value: float | None = None
    form: Form = 3
    sign: bool = False
    unit: str = ""
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    n: int | None = None
    mark: str = ""
    beside: Number | None = None

    def __post_init__(self) -> None:
        for name in ("value", "low", "high", "spread"):
            object.__setattr__(self, name, finite(getattr(self, name)))


Cell = str | Number | None | tuple[Number | None, ...]
"""A text, a number, nothing (printed as a dash), or several numbers."""


@dataclass(frozen=True)
class Table:
    """A table: a warning above, caption, heads, cells, a remark below.

    ``section`` is the section of a study's page; a ``folded`` table is opened by a click.
    """

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    remark: str = ""
    folded: bool = False
    section: str = ""
    warning: str = ""


def without_empty_columns(table: Table) -> Table:
    """Return a table without the columns in which no row has a cell.

    Examples
    --------
    >>> without_empty_columns(Table("", ("a", "b", "c"), (("x", None, "1"), ("y", None, None))))
    Table(caption='', heads=('a', 'c'), rows=(('x', '1'), ('y', None)), remark='', folded=False, \
section='', warning='')
    """
    kept = [
        number
        for number in range(len(table.heads))
        if number == 0 or any(row[number] is not None for row in table.rows)
    ]
    return replace(
        table,
        heads=tuple(table.heads[number] for number in kept),
        rows=tuple(tuple(row[number] for number in kept) for row in table.rows),
    )


def finite(value: float | None) -> float | None:
    """Return a number, or None instead of NaN and infinity."""
    return None if value is None or not math.isfinite(value) else float(value)


def printed(cell: Cell) -> str:
    """Return the text of a cell; the spaces of a number do not break.

    Examples
    --------
    >>> printed(None), printed(Number(-0.25, 2)), printed(Number(float("nan")))
    ('–', '−0.25', 'not measured')
    >>> printed((Number(0.5, ".1%"), Number(2000, ",.0f", unit="pairs"))).replace("\u00a0", " ")
    '50.0 % / 2,000 pairs'
    >>> printed(Number(0.5, 2, low=0.25, high=1, n=3)).replace("\u00a0", " ")
    '0.50 (0.25 to 1.00) (n = 3)'
    >>> gain = Number(0.1, 1, sign=True, mark="*")
    >>> printed(Number(0.5, 1, spread=0.2, beside=gain)).replace("\u00a0", " ")
    '0.5 ± 0.2 [+0.1*]'
    """
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, tuple):
        return " / ".join(map(printed, cell))
    parts = []
    if cell.value is not None:
        parts.append(_figure(cell.value, cell.form, cell.sign))
    if cell.spread is not None:
        parts.append(f"± {_figure(cell.spread, cell.form)}")
    if cell.low is not None and cell.high is not None:
        low, high = (_figure(limit, cell.form, cell.sign) for limit in (cell.low, cell.high))
        parts.append(f"({low} to {high})" if parts else f"{low} to {high}")
    if not parts:
        return MISSING
    if cell.unit:
        parts.append(cell.unit)
    if cell.n is not None:
        parts.append(f"(n = {cell.n})")
    text = " ".join(parts) + cell.mark
    if cell.beside:
        text += f" [{printed(cell.beside)}]"
    return text.replace(" ", "\u00a0")


def _figure(value: float, form: Form, sign: bool = False) -> str:
    if isinstance(form, int):
        return number(value, form, sign)
    if isinstance(form, str):
        if form.endswith("%"):
            return percent(value, int(form[1:-1]), sign)
        return format(value, f"+{form}" if sign else form).replace("-", "−")
    return form(value)


def general(value: Any) -> Number:
    """Return a setting, such as a rate, which is printed without trailing zeros."""
    return Number(float(value), "g")


def whole(value: float) -> Number:
    """Return a count, which is printed with separators of thousands."""
    return Number(value, ",.0f")


def or_dash(
    value: float | None, form: Form = 3, sign: bool = False, unit: str = ""
) -> Number | None:
    """Return a number, or None if it was not measured."""
    return None if finite(value) is None else Number(value, form, sign, unit)


def between(low: float, high: float, form: Form = 3, sign: bool = False) -> Number | None:
    """Return an interval without its middle, or None without finite limits."""
    if finite(low) is None or finite(high) is None:
        return None
    return Number(None, form, sign, low=low, high=high)


def mean_and_spread(values: pd.Series, form: Form = 3, counted: bool = True) -> Number:
    """Return the mean with the standard deviation, and the number of runs if `counted`."""
    values = values.dropna()
    n = len(values) if counted and len(values) else None
    return Number(values.mean(), form, spread=values.std(), n=n)


def with_interval(rows: pd.DataFrame) -> Number:
    """Return the value of a single row with its interval, or mean ± deviation of several."""
    if len(rows) != 1 or not math.isfinite(rows["low"].iloc[0] + rows["high"].iloc[0]):
        return mean_and_spread(rows["value"], counted=False)
    value, low, high = (rows[name].iloc[0] for name in ("value", "low", "high"))
    return Number(value, low=low, high=high)


def effect_cell(value: float, low: float, high: float) -> Number | None:
    """Return an effect with its limits, if it has any, in three significant digits."""
    return None if finite(value) is None else Number(value, signed, low=low, high=high)


def signed(value: float) -> str:
    """Format an effect with three significant digits and its sign."""
    return significant(value, sign=True)


# Tables as plain text, for a terminal.


def aligned(
    heads: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()
) -> str:
    """Return aligned columns below their heads, without trailing spaces.

    Columns whose numbers are in `right` are aligned to the right.

    Examples
    --------
    >>> print(aligned(("rule", "jobs"), [("simulate", "12")], right={1}))
    rule        jobs
    --------  ------
    simulate      12
    """
    # A space that must not break on a page is an ordinary space here.
    cells = [[cell.replace("\u00a0", " ") for cell in row] for row in (heads, *rows)]
    sides = ["right" if number in right else "left" for number in range(len(heads))]
    text = tabulate(cells[1:], cells[0], "simple", disable_numparse=True, colalign=sides)
    return "\n".join(line.rstrip() for line in text.splitlines())
