"""The published overlap of neurons as directions, and the smallest effect of interest on it."""

from __future__ import annotations

import math

import pandas as pd

from mispair.evaluation.overlap_spectrum import directions_of_overlap
from mispair.report import published
from mispair.report.claims import THIRD


def published_directions(scheme: str = "random") -> pd.Series:
    """Return the participation ratio that each published mean |cos| implies, by C_m."""
    table = published.purity_by_scheme()
    curve = table[table["scheme"] == scheme].set_index("shuffle_probability")["mean_abs_cosine"]
    directions: pd.Series = curve.map(
        lambda overlap: directions_of_overlap(overlap, published.NEURONS)
    )
    return directions


def smallest_overlap() -> float:
    """Return a third of the published change of the log participation ratio from C_m 0 to 0.1.

    It is the smallest published step that starts at right captions.

    Examples
    --------
    >>> round(smallest_overlap(), 3)
    0.157
    """
    curve = published_directions()
    return THIRD * abs(math.log(curve[0.1] / curve[0.0]))
