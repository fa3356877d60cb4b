"""Full-batch gradient descent on the logistic risk: all runs of a stack together, and phases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from mispair.core.resume import Keeper
from mispair.stepsize.data_sets import DataSet
from mispair.stepsize.networks import Activation, Networks

Array = NDArray[np.float64]

LOGGED = ("risk", "potential", "least", "norm", "along")


@dataclass(frozen=True)
class RunStack:
    """Runs on the same data with the same activation and width.

    Attributes
    ----------
    stepsizes : ndarray (R,)
        η of each run: the step on w is m η, so that curves of different widths m compare.
    start : ndarray (R, m, d)
        The first weights.
    direction : ndarray (d,), optional
        w* of `mispair.stepsize.theory`, along which the weights are followed.
    """

    data: DataSet
    activation: Activation
    stepsizes: Array
    start: Array
    direction: Array | None = None

    @property
    def width(self) -> int:
        """Neurons of each network, m."""
        return int(self.start.shape[1])


@dataclass(frozen=True)
class Curves:
    """Values that are logged for every run at every step: arrays (T + 1, R).

    Attributes
    ----------
    risk : ndarray
        L = mean log(1 + exp(−q_i)), of the margins q_i = y_i f(x_i).
    potential : ndarray
        Gradient potential G = mean 1/(1 + exp(q_i)).
    least : ndarray
        min_i q_i.
    norm : ndarray
        Frobenius norm of w.
    along : ndarray
        Σ_j a_j <w_j, w*>; NaN where there is no w*.
    diverged : ndarray (R,)
        Step at which a run was stopped, or −1; all that follows is NaN.
    final : ndarray (R, m, d)
        The last weights.
    """

    risk: Array
    potential: Array
    least: Array
    norm: Array
    along: Array
    diverged: NDArray[np.int64]
    final: Array


def descend(
    stack: RunStack,
    steps: int,
    keeper: Keeper[np.ndarray] | None = None,
    progress: Report = lambda step: None,
) -> Curves:
    """Run gradient descent with constant steps: w ← w − m η ∇L(w).

    Parameters
    ----------
    stack : RunStack
        The runs.
    steps : int
        T; step 0 is the start.
    keeper : Keeper, optional
        Keeps the state now and then.
    progress : callable, optional
        Receives the next step.
    """
    networks = Networks(stack.data.points, stack.activation, stack.width)
    state = loaded(keeper, lambda: {
        **first_state(stack.stepsizes, steps, LOGGED),
        "weights": stack.start.astype(np.float64).copy(),
    })  # fmt: skip
    weights = state["weights"]
    size = networks.runs_at_a_time
    blocks = [slice(first, first + size) for first in range(0, len(weights), size)]
    for t in steps_from(state, steps, keeper, progress):
        with np.errstate(over="ignore", invalid="ignore"):
            for block in blocks:
                _step(stack, networks, state, block, t, t < steps)
        if (stopped := stop_diverged(state, t, LOGGED)) is not None:
            weights[stopped] = 0
    logged = {name: state[name] for name in (*LOGGED, "diverged")}
    return Curves(**logged, final=weights)


def _step(
    stack: RunStack, networks: Networks, state: State, block: slice, t: int, moves: bool
) -> None:
    """Log some runs at step t, and update their weights if `moves` is true."""
    weights, labels = state["weights"][block], stack.data.labels
    outputs, pull = networks.forward(weights)
    margins = outputs * labels
    doubts = expit(-margins)
    state["risk"][t, block] = np.logaddexp(0, -margins).mean(axis=1)
    state["potential"][t, block] = doubts.mean(axis=1)
    state["least"][t, block] = margins.min(axis=1)
    flat = weights.reshape(len(weights), -1)
    state["norm"][t, block] = np.sqrt(np.einsum("rk,rk->r", flat, flat))
    if stack.direction is not None:
        state["along"][t, block] = (networks.signs @ weights) @ stack.direction
    if moves:
        # The gradient's 1/m and the step's m cancel.
        rates = state["rates"][block, None] / len(labels)
        weights += pull(rates * doubts * labels)


def accuracy(stack: RunStack, weights: Array) -> Array:
    """Return the share (R,) of test points that the networks (R, m, d) classify correctly."""
    networks = Networks(stack.data.test_points, stack.activation, stack.width)
    shares = [
        ((networks.forward(weights[r : r + 1])[0] > 0) == (stack.data.test_labels > 0)).mean()
        for r in range(len(weights))
    ]
    return np.array(shares)


# Steps of a long run that are kept, resumed, and stopped if it diverges.


def kept_steps(steps: int, points: int) -> NDArray[np.int64]:
    """Return distinct steps from 0 to `steps`, both among them: at most `points` on a log scale.

    Examples
    --------
    >>> kept_steps(1000, 4).tolist()
    [0, 1, 10, 100, 1000]
    """
    spread = np.rint(np.geomspace(1, steps, points)).astype(np.int64)
    return np.unique(np.append(spread, 0))


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
