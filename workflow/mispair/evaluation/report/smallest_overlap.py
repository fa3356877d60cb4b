"""The smallest effect of interest of the overlap of neurons, from the published sweep."""

from __future__ import annotations

import math

from mispair.evaluation.overlap_spectrum import directions_of_overlap
from mispair.report import published
from mispair.report.claims import THIRD


def smallest_overlap() -> float:
    """Return a third of the published change of the log participation ratio from C_m 0 to 0.1.

    It is the smallest published step that starts at right captions. Participation ratios are
    those that the published mean |cos| of 512 neurons implies.

    Examples
    --------
    >>> round(smallest_overlap(), 3)
    0.157
    """
    curve = published.purity().set_index("shuffle_probability")["mean_abs_cosine"]
    right, wrong = (
        math.log(directions_of_overlap(float(curve[rate]), published.NEURONS))
        for rate in (0.0, 0.1)
    )
    return THIRD * abs(wrong - right)
