"""How far what was measured lies from what was published, in words for the table of claims."""

from __future__ import annotations

import math

import pandas as pd

from mispair.core.words import number


def gap(measured: float, published: float, of: str, digits: int = 3) -> str:
    """Return measured − published with what it is the difference of; empty if one is not known.

    Examples
    --------
    >>> gap(0.5, 0.75, "in the gain"), gap(0.5, float("nan"), "in the gain")
    ('−0.250 in the gain', '')
    """
    if not math.isfinite(measured - published):
        return ""
    return f"{number(measured - published, digits, sign=True)} {of}"


def gap_of_change(measured: pd.Series, published: pd.Series, digits: int = 3) -> str:
    """Return the difference of two changes, each from the first to the last common place.

    Parameters
    ----------
    measured, published : Series
        Values by the swept probability, sorted.
    """
    common = [rate for rate in measured.dropna().index if rate in published.dropna().index]
    if len(common) < 2:
        return ""
    first, last = common[0], common[-1]
    measured_change, published_change = (
        float(values[last] - values[first]) for values in (measured, published)
    )
    return gap(
        measured_change, published_change, f"in the change from {first:g} to {last:g}", digits
    )


def gap_of_mean(measured: pd.Series, published: pd.Series, of: str, digits: int = 3) -> str:
    """Return the mean difference over the common places of two series."""
    apart = (measured - published.reindex(measured.index)).dropna()
    return gap(float(apart.mean()), 0.0, of, digits) if len(apart) else ""
