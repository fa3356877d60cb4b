"""Cells of tables: numbers that are formatted when they are printed."""

import math

import numpy as np
import pandas as pd
import pytest

from mispair.core.words import duration, p_value, percent
from mispair.report.latex import tabular
from mispair.report.table import (
    Cell,
    Number,
    Table,
    between,
    effect_cell,
    general,
    mean_and_spread,
    or_dash,
    printed,
    whole,
    with_interval,
)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("C_m", "C_m"),
        (None, "–"),
        (Number(), "not measured"),
        (Number(-0.0004), "0.000"),
        (Number(-1.5, 1), "−1.5"),
        (Number(0.25, 2, sign=True, low=-0.5, high=1), "+0.25 (−0.50 to +1.00)"),
        (Number(0.5, 2, sign=True, spread=0.125, mark="*"), "+0.50 ± 0.12*"),
        (Number(None, "g", spread=0.05), "± 0.05"),
        (Number(0.5, 1, spread=0.25, n=4), "0.5 ± 0.2 (n = 4)"),
        (Number(2e-5, ".2g"), "2e−05"),
        (Number(0.0909, ".2%"), "9.09 %"),
        (Number(0.012, percent), "1.2 %"),
        (Number(0.0, percent, low=0.0, high=0.012), "none (none to 1.2 %)"),
        (Number(0.0, ".2%"), "none"),
        (Number(0.00004, ".2%"), "below 0.01 %"),
        (Number(-0.00004, ".2%", sign=True), "above −0.01 %"),
        (Number(0.25, ".0%", sign=True), "+25 %"),
        (Number(75, duration), "1 min 15 s"),
        (Number(0.0002, p_value), "p < 0.001"),
        (Number(1234, ",.0f", unit="MB"), "1,234 MB"),
        (Number(1.0, beside=Number(2.0, 1)), "1.000 [2.0]"),
        (general(1e9), "1e+09"),
        (general(0.30), "0.3"),
        (whole(20_000), "20,000"),
        (between(0.1, 0.25, 2), "0.10 to 0.25"),
        (between(0.1, math.nan), "–"),
        (or_dash(math.inf), "–"),
        (effect_cell(12.345, 0.00123, 100.4), "+12.3 (+0.00123 to +100)"),
        (effect_cell(math.nan, 0, 1), "–"),
        ((whole(8), Number(9.25, 1), None), "8 / 9.2 / –"),
    ],
)
def test_each_form_of_a_cell(cell: Cell, text: str) -> None:
    assert printed(cell).replace("\u00a0", " ") == text


def test_missing_parts_are_none_so_that_equal_cells_are_equal() -> None:
    cell = Number(np.float64(0.5), low=math.nan, high=math.nan, spread=math.nan)
    assert cell == Number(0.5)
    assert hash(cell) == hash(Number(0.5))
    assert Number(math.nan) == Number() == mean_and_spread(pd.Series([None, math.nan]))


def test_means_have_a_spread_and_single_rows_their_interval() -> None:
    assert mean_and_spread(pd.Series([1.0, 3.0, math.nan])) == Number(2, spread=2**0.5, n=2)
    assert mean_and_spread(pd.Series([1.0]), 2, counted=False) == Number(1, 2)
    rows = pd.DataFrame({"value": [0.5, 0.7], "low": [0.4, math.nan], "high": [0.6, math.nan]})
    assert with_interval(rows[:1]) == Number(0.5, low=0.4, high=0.6)
    assert with_interval(rows[1:]) == Number(0.7)
    assert with_interval(rows).spread == pytest.approx(0.02**0.5)


def test_a_column_of_numbers_is_aligned_to_the_right_also_where_some_are_missing() -> None:
    rows = (("a", Number(), whole(1), "2"), ("b", Number(1), None, "3 of 4"))
    assert r"\begin{tabular}{lrrl}" in tabular(Table("", ("", "", "", ""), rows), "name")
