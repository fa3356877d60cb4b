"""One job of the study: every stepsize, seed and width of a data set and activation, measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mispair.core.progress import Progress
from mispair.core.resume import Keeper
from mispair.stepsize.activations import ACTIVATIONS
from mispair.stepsize.data_sets import SEEDED, DataSet, output_signs, start_weights
from mispair.stepsize.descent import Curves, Look, Stack, accuracy, descend
from mispair.stepsize.measures import Run, acceleration, curve_rows, run_row, speedups
from mispair.stepsize.separation import separation
from mispair.stepsize.sharpness import sharpness
from mispair.stepsize.thinning import kept_steps

Row = dict[str, Any]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """A job of the study: every combination of width, stepsize and seed.

    Attributes
    ----------
    part, data_set, activation, widths, stepsizes, seeds, steps
        As in `mispair.stepsize.settings.Part`.
    points : int
        Points of a curve that are kept, on a log scale.
    looks : tuple of int
        First steps, all with a measured sharpness, and number of later ones on a log scale.
    risk_levels : sequence of float
        Risk levels; the steps to each are counted.
    budgets : sequence of int
        Steps T at which the acceleration is measured.
    """

    part: str
    data_set: str
    activation: str
    widths: Sequence[int]
    stepsizes: Sequence[float]
    seeds: Sequence[int]
    steps: int
    points: int = 80
    looks: tuple[int, int] = (400, 150)
    risk_levels: Sequence[float] = (0.1, 0.05, 0.01, 0.002, 0.001)
    budgets: Sequence[int] = (100, 200, 500, 1000, 2000, 5000, 10000, 20000)


def run_plan(
    plan: Plan,
    make: Callable[[int], DataSet],
    keeper: Callable[[str], Keeper[np.ndarray]] | None = None,
) -> list[Row]:
    """Train all networks of a plan, and return the rows that were measured.

    `make` returns the data set of a seed, and `keeper` the keeper of the stack with a name.
    The ``kind`` of a row names its table: run, curve, speedup or acceleration.
    """
    rows: list[Row] = []
    for name, stack, seeds in stacks(plan, make):
        look_at, look = looks(plan, stack)
        kept = keeper and keeper(name)
        with Progress(
            f"{plan.part}, {plan.data_set}, width {stack.width}", plan.steps, "steps"
        ) as progress:
            curves = descend(stack, plan.steps, look, look_at, kept, progress.reach)
        rows += measured(plan, stack, seeds, curves, look_at)
    return rows


def stacks(plan: Plan, make: Callable[[int], DataSet]) -> Iterator[tuple[str, Stack, list[int]]]:
    """Yield the stacks of a plan with a name and the seed of each of their runs.

    Runs of the same width and data form a stack. A run's position in its stack changes its numbers
    by rounding errors at most.
    """
    groups = [[seed] for seed in plan.seeds] if plan.data_set in SEEDED else [list(plan.seeds)]
    for seeds in groups:
        data = make(seeds[0])
        plane = separation(data)
        for width in plan.widths:
            starts = [
                start_weights(plan.data_set, width, data.points.shape[1], seed) for seed in seeds
            ]
            yield (
                f"{width}-{seeds[0]}-{seeds[-1]}",
                Stack(
                    data,
                    ACTIVATIONS[plan.activation],
                    np.tile(np.array(plan.stepsizes, dtype=np.float64), len(seeds)),
                    np.repeat(np.stack(starts), len(plan.stepsizes), axis=0),
                    None if plane is None else plane.direction,
                ),
                [seed for seed in seeds for _ in plan.stepsizes],
            )


def looks(plan: Plan, stack: Stack) -> tuple[list[int], Look]:
    """Return the steps at which the weights themselves are measured, and the measuring function.

    The sharpness at the start belongs to every run: it predicts the onset of oscillation.
    """
    if plan.part == "neurons":
        return kept_steps(plan.steps, plan.points).tolist(), lambda w: neuron_margins(stack, w)
    at = [0]
    if plan.part == "sharpness":
        first, spread = plan.looks
        at = kept_steps(plan.steps, spread, first).tolist()
    return at, lambda w: sharpness(stack.data, stack.activation, w)[:, None]


def neuron_margins(stack: Stack, weights: Array) -> Array:
    """Return min_i y_i a_j φ(<w_j, x_i>) / ‖w_j‖ of each neuron, shape (R, m)."""
    inner = weights @ stack.data.points.T
    signed = output_signs(stack.width)[:, None] * stack.data.labels
    margins: Array = (signed * stack.activation.value(inner)).min(axis=2)
    return margins / np.linalg.norm(weights, axis=2)


def measured(
    plan: Plan, stack: Stack, seeds: Sequence[int], curves: Curves, look_at: Sequence[int]
) -> list[Row]:
    """Return the rows of a finished stack."""
    margin = None
    if stack.direction is not None:
        margin = float((stack.data.labels * (stack.data.points @ stack.direction)).min())
    first = np.full(len(seeds), np.nan) if plan.part == "neurons" else curves.looked[0, :, 0]
    right = np.full(len(seeds), np.nan)
    if len(stack.data.test_points):
        right = accuracy(stack, curves.final)
    runs = [
        Run(stack, r, curves, _keys(plan, stack, r, seed), margin, float(first[r]), float(right[r]))
        for r, seed in enumerate(seeds)
    ]
    rows: list[Row] = []
    for r, run in enumerate(runs):
        rows.append({"kind": "run", **run.keys, **run_row(run)})
        if run.keys["seed"] == plan.seeds[0] and plan.part not in ("onset", "acceleration"):
            looked = curves.looked[:, r] if len(look_at) > 1 else None
            steps = look_at if looked is not None else kept_steps(plan.steps, plan.points)
            rows += [
                {"kind": "curve", **run.keys, **row}
                for row in curve_rows(run, np.array(steps), looked, plan.part)
            ]
    for seed in dict.fromkeys(seeds):
        of_seed = [run for run in runs if run.keys["seed"] == seed]
        rows += [{"kind": "speedup", **row} for row in speedups(of_seed, plan.risk_levels)]
        if plan.part == "acceleration":
            rows += [{"kind": "acceleration", **row} for row in acceleration(of_seed, plan.budgets)]
    return rows


def _keys(plan: Plan, stack: Stack, r: int, seed: int) -> Row:
    """Return the columns that name run r of a stack."""
    return {
        "part": plan.part, "data_set": plan.data_set, "activation": plan.activation,
        "width": stack.width, "stepsize": float(stack.stepsizes[r]), "seed": seed,
    }  # fmt: skip
