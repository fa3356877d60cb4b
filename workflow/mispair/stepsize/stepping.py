"""Steps of gradient descent on a stack of runs, from a resume state, and runs that diverge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mispair.core.resume import Keeper

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
