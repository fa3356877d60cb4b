"""Difference between a measured and a published number, in words and as numbers."""

from __future__ import annotations

import math

import pandas as pd

from mispair.core.words import number


class Gap(str):
    """Measured − published in words, with the two numbers and their quantity.

    It is a text, as pages print it; a claim without a published number has the text "".
    """

    measured: float
    published: float
    quantity: str


def gap(measured: float, published: float, of: str, digits: int = 3) -> str:
    """Return measured − published with its quantity; empty if one is missing.

    Examples
    --------
    >>> gap(0.5, 0.75, "in the gain"), gap(0.5, float("nan"), "in the gain")
    ('−0.250 in the gain', '')
    """
    if not math.isfinite(measured - published):
        return ""
    text = Gap(f"{number(measured - published, digits, sign=True)} {of}")
    text.measured, text.published, text.quantity = measured, published, of.removeprefix("in ")
    return text


def gap_of_change(measured: pd.Series, published: pd.Series, digits: int = 3) -> str:
    """Return the gap of changes, each from the first to the last common value of the sweep.

    Both series have values by the swept probability, sorted.
    """
    common = measured.dropna().index.intersection(published.dropna().index, sort=False)
    if len(common) < 2:
        return ""
    first, last = common[0], common[-1]
    of_measured, of_published = (float(one[last] - one[first]) for one in (measured, published))
    return gap(of_measured, of_published, f"in the change from {first:g} to {last:g}", digits)


def gap_of_mean(measured: pd.Series, published: pd.Series, of: str, digits: int = 3) -> str:
    """Return the gap of means over the common values of the sweep of two series."""
    both = pd.DataFrame({"measured": measured, "published": published}).dropna()
    return gap(float(both["measured"].mean()), float(both["published"].mean()), of, digits)
