"""One job of the study: every stepsize, seed and width of a data set and activation, measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mispair.core.progress import Progress
from mispair.core.resume import Keeper
from mispair.stepsize.data_sets import SEEDED, DataSet, output_signs, start_weights
from mispair.stepsize.descent import Curves, Look, RunStack, accuracy, descend
from mispair.stepsize.measures import Run, acceleration, curve_rows, run_row, speedups
from mispair.stepsize.networks import ACTIVATIONS, sharpness
from mispair.stepsize.settings import Part, TwoLayerSettings
from mispair.stepsize.stepping import kept_steps
from mispair.stepsize.theory import separation

Row = dict[str, Any]
Array = NDArray[np.float64]


def run_part(
    part: Part,
    settings: TwoLayerSettings,
    make: Callable[[int], DataSet],
    keeper: Callable[[str], Keeper[np.ndarray]] | None = None,
) -> list[Row]:
    """Train all networks of a part with one activation, and return the rows that were measured.

    `make` returns the data set of a seed, and `keeper` the keeper of the stack with a name.
    The ``kind`` of a row names its table: run, curve, speedup or acceleration.
    """
    rows: list[Row] = []
    for name, stack, seeds in stacks(part, make):
        look_at, look = looks(part, settings, stack)
        kept = keeper and keeper(name)
        with Progress(
            f"{part.part}, {part.data_set}, width {stack.width}", part.steps, "steps"
        ) as progress:
            curves = descend(stack, part.steps, look, look_at, kept, progress.reach)
        rows += measured(part, settings, stack, seeds, curves, look_at)
    return rows


def stacks(part: Part, make: Callable[[int], DataSet]) -> Iterator[tuple[str, RunStack, list[int]]]:
    """Yield the stacks of a part with a name and the seed of each of their runs.

    Runs of the same width and data form a stack. A run's position in its stack changes its numbers
    by rounding errors at most.
    """
    (activation,), ladder, every = part.activations, part.ladder, list(range(part.seeds))
    groups = [[seed] for seed in every] if part.data_set in SEEDED else [every]
    for seeds in groups:
        data = make(seeds[0])
        direction = separation(data)
        for width in part.widths:
            starts = [
                start_weights(part.data_set, width, data.points.shape[1], seed) for seed in seeds
            ]
            yield (
                f"{width}-{seeds[0]}-{seeds[-1]}",
                RunStack(
                    data,
                    ACTIVATIONS[activation],
                    np.tile(np.array(ladder), len(seeds)),
                    np.repeat(np.stack(starts), len(ladder), axis=0),
                    direction,
                ),
                [seed for seed in seeds for _ in ladder],
            )


def looks(part: Part, settings: TwoLayerSettings, stack: RunStack) -> tuple[list[int], Look]:
    """Return the steps at which the weights themselves are measured, and the measuring function.

    The sharpness at the start belongs to every run: it predicts the onset of oscillation.
    """
    if part.part == "neurons":
        kept = kept_steps(part.steps, settings.points)
        return kept.tolist(), lambda w: neuron_margins(stack, w)
    at = [0]
    if part.part == "sharpness":
        first, spread = settings.sharpness_first, settings.sharpness_points
        at = kept_steps(part.steps, spread, first).tolist()
    return at, lambda w: sharpness(stack.data, stack.activation, w)[:, None]


def neuron_margins(stack: RunStack, weights: Array) -> Array:
    """Return min_i y_i a_j φ(<w_j, x_i>) / ‖w_j‖ of each neuron, shape (R, m)."""
    inner = weights @ stack.data.points.T
    signed = output_signs(stack.width)[:, None] * stack.data.labels
    margins: Array = (signed * stack.activation.value(inner)).min(axis=2)
    return margins / np.linalg.norm(weights, axis=2)


def measured(
    part: Part, settings: TwoLayerSettings, stack: RunStack, seeds: Sequence[int], curves: Curves,
    look_at: Sequence[int],
) -> list[Row]:  # fmt: skip
    """Return the rows of a finished stack."""
    margin = None
    if stack.direction is not None:
        margin = float((stack.data.labels * (stack.data.points @ stack.direction)).min())
    first = np.full(len(seeds), np.nan) if part.part == "neurons" else curves.looked[0, :, 0]
    right = np.full(len(seeds), np.nan)
    if len(stack.data.test_points):
        right = accuracy(stack, curves.final)
    runs = []
    for r, seed in enumerate(seeds):
        keys = {
            "part": part.part, "data_set": part.data_set, "activation": stack.activation.name,
            "width": stack.width, "stepsize": float(stack.stepsizes[r]), "seed": seed,
        }  # fmt: skip
        runs.append(Run(stack, r, curves, keys, margin, float(first[r]), float(right[r])))
    rows: list[Row] = []
    for r, run in enumerate(runs):
        rows.append({"kind": "run", **run.keys, **run_row(run)})
        if run.keys["seed"] == 0 and part.part not in ("onset", "acceleration"):
            looked = curves.looked[:, r] if len(look_at) > 1 else None
            steps = look_at if looked is not None else kept_steps(part.steps, settings.points)
            rows += [
                {"kind": "curve", **run.keys, **row}
                for row in curve_rows(run, np.array(steps), looked, part.part)
            ]
    for seed in dict.fromkeys(seeds):
        of_seed = [run for run in runs if run.keys["seed"] == seed]
        rows += [{"kind": "speedup", **row} for row in speedups(of_seed, settings.risk_levels)]
        if part.part == "acceleration":
            accelerated = acceleration(of_seed, settings.budgets)
            rows += [{"kind": "acceleration", **row} for row in accelerated]
    return rows
