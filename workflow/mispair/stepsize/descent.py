"""Full-batch gradient descent on the logistic risk, all runs of a stack together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from mispair.core.resume import Keeper
from mispair.stepsize.data_sets import DataSet
from mispair.stepsize.networks import Activation, Networks
from mispair.stepsize.stepping import Report, State, first_state, loaded, steps_from, stop_diverged

Array = NDArray[np.float64]

LOGGED = ("risk", "potential", "least", "norm", "along")

Look = Callable[[Array], Array]
"""From the weights (R, m, d) to a row of numbers for each run (R, k)."""


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
    looked : ndarray (looks, R, k)
        Result of `look` at each step of `look_at`.
    """

    risk: Array
    potential: Array
    least: Array
    norm: Array
    along: Array
    diverged: NDArray[np.int64]
    final: Array
    looked: Array


def descend(
    stack: RunStack,
    steps: int,
    look: Look | None = None,
    look_at: Sequence[int] = (),
    keeper: Keeper[np.ndarray] | None = None,
    progress: Report = lambda step: None,
) -> Curves:
    """Run gradient descent with constant steps: w ← w − m η ∇L(w).

    Parameters
    ----------
    stack : Stack
        The runs.
    steps : int
        T; step 0 is the start.
    look : callable, optional
        Measures something else on the weights, at the steps of `look_at` only.
    look_at : sequence of int
        Increasing, from 0 to T.
    keeper : Keeper, optional
        Keeps the state now and then.
    progress : callable, optional
        Receives the next step.
    """
    networks = Networks(stack.data.points, stack.activation, stack.width)
    state = loaded(keeper, lambda: {
        **first_state(stack.stepsizes, steps, LOGGED),
        "weights": stack.start.astype(np.float64).copy(),
        "looked": np.full((len(look_at), len(stack.stepsizes), 0), np.nan),
    })  # fmt: skip
    weights = state["weights"]
    number = {step: position for position, step in enumerate(look_at)}
    size = networks.runs_at_a_time
    blocks = [slice(first, first + size) for first in range(0, len(weights), size)]
    for t in steps_from(state, steps, keeper, progress):
        if look is not None and t in number:
            measured = look(weights)
            if state["looked"].shape[2] != measured.shape[1]:
                state["looked"] = np.full((len(look_at), *measured.shape), np.nan)
            running = state["diverged"][:, None] < 0
            state["looked"][number[t]] = np.where(running, measured, np.nan)
        with np.errstate(over="ignore", invalid="ignore"):
            for block in blocks:
                _step(stack, networks, state, block, t, t < steps)
        if (stopped := stop_diverged(state, t, LOGGED)) is not None:
            weights[stopped] = 0
    logged = {name: state[name] for name in (*LOGGED, "diverged", "looked")}
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
