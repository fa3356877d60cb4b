"""Steps of gradient descent on a stack of runs: resumed, kept, diverged, and its phases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mispair.core.resume import Keeper

# Steps of a long run that are kept: all early ones, later ones evenly on a log scale.


def kept_steps(steps: int, points: int, first: int = 0) -> NDArray[np.int64]:
    """Return distinct steps from 0 to `steps`, both among them.

    These are all steps up to `first`, and at most `points` more on a log scale.

    Examples
    --------
    >>> kept_steps(1000, 4).tolist(), kept_steps(100, 2, first=2).tolist()
    ([0, 1, 10, 100, 1000], [0, 1, 2, 100])
    """
    spread = np.rint(np.geomspace(1, steps, points)).astype(np.int64)
    early = np.arange(min(first, steps) + 1)
    return np.unique(np.concatenate([[0], early, spread]))


State = dict[str, NDArray[Any]]
"""The state of a descent, updated in place: ``step``, the weights, the stepsizes ``rates`` (R,),
``diverged`` (R,) (step at which a run was stopped, or −1), ``risk`` and other curves (T + 1, R).
"""

RISK_STOP = 1e6
"""Risk above which a run counts as diverged and is stopped."""
STEPS_BETWEEN_SAVES = 64
"""Least number of steps between two states that are saved."""

Report = Callable[[int], None]
"""Receives the next step."""


def loaded(keeper: Keeper[np.ndarray] | None, begin: Callable[[], State]) -> State:
    """Return the kept state in writable arrays, or else the state of `begin`."""
    kept = None if keeper is None else keeper.load()
    return {name: np.array(array) for name, array in kept.items()} if kept else begin()


def first_state(stepsizes: Any, steps: int, curves: tuple[str, ...]) -> State:
    """Return a state at step 0 without weights: curves without values, no run stopped."""
    rates = np.array(stepsizes, dtype=np.float64)
    return {
        **{name: np.full((steps + 1, len(rates)), np.nan) for name in curves},
        "rates": rates, "diverged": np.full(len(rates), -1), "step": np.zeros((), dtype=np.int64),
    }  # fmt: skip


def steps_from(
    state: State, steps: int, keeper: Keeper[np.ndarray] | None, progress: Report
) -> Iterator[int]:
    """Yield each step from the state's to `steps`; save the state before a step if it is due."""
    begin = int(state["step"])
    for t in range(begin, steps + 1):
        progress(t)
        saves = t > begin and t % STEPS_BETWEEN_SAVES == 0
        if keeper is not None and saves and keeper.due():
            state["step"][...] = t
            keeper.save(state)
        yield t


def stop_diverged(state: State, t: int, curves: tuple[str, ...]) -> NDArray[np.bool_] | None:
    """Stop the runs whose risk at step t is too large, or not a number.

    Their stepsizes are set to 0, and their curves to NaN after the step at which they were stopped.
    The result is a mask (R,) of the stopped runs, or None if no run is stopped.
    """
    lost = ~(state["risk"][t] <= RISK_STOP) & (state["diverged"] < 0)
    state["diverged"][lost] = t
    stopped: NDArray[np.bool_] = state["diverged"] >= 0
    if not stopped.any():
        return None
    state["rates"][stopped] = 0
    for name in curves:
        state[name][t, stopped & ~lost] = np.nan
    return stopped


# The end of a run's oscillation, and its risk until then.

Array = NDArray[np.float64]

RISE = 1e-12
"""Smallest relative rise of the risk in one step that counts; less is rounding."""
LATE = 0.99
"""Share of the steps after which a last rise leaves open whether the run settles."""


@dataclass(frozen=True)
class RunPhases:
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


def phases(risk: Array) -> RunPhases:
    """Split a curve of the risk (T + 1,); what follows a divergence is NaN."""
    finite = risk[np.isfinite(risk)]
    steps = len(risk) - 1
    rose = np.flatnonzero(np.diff(finite) > RISE * finite[:-1])
    transition = int(rose[-1]) + 1 if len(rose) else 0
    whole = len(finite) == len(risk) and finite[-1] <= finite.max()
    return RunPhases(
        len(rose),
        transition,
        bool(whole and transition <= LATE * steps),
        float(finite[: transition + 1].max()) if len(finite) else math.nan,
        float(finite[rose].min()) if len(rose) else math.nan,
    )


def phase_columns(phase: RunPhases, diverged: int) -> dict[str, Any]:
    """Return the columns of a run's phases; `diverged` is the step at which it was stopped."""
    return {
        "rises": phase.rises, "transition": phase.transition, "settled": int(phase.settled),
        "diverged": diverged, "peak": phase.peak, "lowest_rise": phase.lowest_rise,
    }  # fmt: skip


def first_below(risk: Array, level: float) -> int:
    """Return the first step with a risk of at most `level`, or −1."""
    reached = np.flatnonzero(risk <= level)
    return int(reached[0]) if len(reached) else -1
