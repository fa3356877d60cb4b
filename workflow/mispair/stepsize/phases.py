"""The end of a run's oscillation, and its risk until then."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RISE = 1e-12
"""Smallest relative rise of the risk in one step that counts; less is rounding."""
LATE = 0.99
"""Share of the steps after which a last rise leaves open whether the run settles."""


@dataclass(frozen=True)
class Phases:
    """The two phases of a run.

    Attributes
    ----------
    rises : int
        Steps at which the risk rose.
    transition : int
        First step from which the risk never rises again; 0 if it never rises.
    settled : bool
        Whether the last rise is clearly before the end, and the run did not diverge.
    peak : float
        Largest risk until the transition.
    lowest_rise : float
        Lowest risk from which the risk rises; NaN if it never rises.
    """

    rises: int
    transition: int
    settled: bool
    peak: float
    lowest_rise: float


def phases(risk: Array) -> Phases:
    """Split a curve of the risk (T + 1,); what follows a divergence is NaN."""
    finite = risk[np.isfinite(risk)]
    steps = len(risk) - 1
    rose = np.flatnonzero(np.diff(finite) > RISE * finite[:-1])
    transition = int(rose[-1]) + 1 if len(rose) else 0
    whole = len(finite) == len(risk) and finite[-1] <= finite.max()
    return Phases(
        len(rose),
        transition,
        bool(whole and transition <= LATE * steps),
        float(finite[: transition + 1].max()) if len(finite) else math.nan,
        float(finite[rose].min()) if len(rose) else math.nan,
    )


def phase_columns(phase: Phases, diverged: int) -> dict[str, Any]:
    """Return the columns of a run's phases; `diverged` is the step at which it was stopped."""
    return {
        "rises": phase.rises, "transition": phase.transition, "settled": int(phase.settled),
        "diverged": diverged, "peak": phase.peak, "lowest_rise": phase.lowest_rise,
    }  # fmt: skip


def first_below(risk: Array, level: float) -> int:
    """Return the first step with a risk of at most `level`, or −1."""
    reached = np.flatnonzero(risk <= level)
    return int(reached[0]) if len(reached) else -1
