"""The runs of one job, and what is measured on them, as rows: phases, margins, bounds, speed."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mispair.core.progress import Progress
from mispair.core.resume import Keeper
from mispair.stepsize.data_sets import SEEDED, DataSet, start_weights
from mispair.stepsize.descent import (
    Curves,
    RunPhases,
    RunStack,
    accuracy,
    descend,
    first_below,
    kept_steps,
    phase_columns,
    phases,
)
from mispair.stepsize.networks import ACTIVATIONS
from mispair.stepsize.settings import Part, TwoLayerSettings
from mispair.stepsize.theory import (
    Margins,
    average_potential_bound,
    average_risk_bound,
    margins,
    rate_bounds,
    separation,
    stable_bound_ratio,
    thresholds,
    transition_time,
    worst,
)

Row = dict[str, Any]
Array = NDArray[np.float64]

RISK_LEVELS = (0.1, 0.05, 0.01, 0.002, 0.001)
"""Risks; the steps of each run to each are counted."""
BELOW_MARGIN = 1e-6
"""Relative amount by which bounds lower margins, which are exact only up to rounding errors."""
FALL = 1e-9
"""Smallest relative fall that counts, for quantities that rise in theory; less is rounding."""
PROPORTION = 100
"""T/η of the schedule η ∝ T: a practical value, as the theorem's needs T of 10⁷."""


@dataclass(frozen=True)
class Run:
    """One run of a stack.

    Attributes
    ----------
    stack, index, curves
        The run's position in a stack, and the curves of all runs of the stack.
    keys : dict
        Columns that name the run.
    separable : float or None
        γ of the data; None if no plane through the origin separates them.
    accuracy : float
        Share of test points that are classified correctly at the end; NaN without a test set.
    """

    stack: RunStack
    index: int
    curves: Curves
    keys: Row
    separable: float | None
    accuracy: float

    @property
    def stepsize(self) -> float:
        """η."""
        return float(self.stack.stepsizes[self.index])

    @property
    def points(self) -> int:
        """Number n of training points."""
        return len(self.stack.data.labels)

    @cached_property
    def risk(self) -> Array:
        """L at every step."""
        return np.ascontiguousarray(self.curves.risk[:, self.index])

    @property
    def norm(self) -> Array:
        """‖w‖ at every step."""
        return self.curves.norm[:, self.index]

    @property
    def diverged(self) -> int:
        """Step at which the run was stopped, or −1."""
        return int(self.curves.diverged[self.index])

    @property
    def start(self) -> float:
        """‖w₀‖/√m."""
        return float(self.norm[0]) / math.sqrt(self.stack.width)

    @property
    def gamma(self) -> float:
        """γ as bounds use it; only for separable points."""
        assert self.separable is not None
        return self.separable * (1 - BELOW_MARGIN)

    @cached_property
    def phases(self) -> RunPhases:
        """Its two phases."""
        return phases(self.risk)

    @cached_property
    def margins(self) -> Margins:
        """Its margins."""
        return margins(
            self.risk, self.curves.least[:, self.index], self.norm, self.stack.activation.constants,
            self.stepsize, self.stack.data.radius, self.points,
        )  # fmt: skip

    @property
    def monotone(self) -> bool:
        """Whether the risk never rose, and the run did not diverge."""
        return self.phases.rises == 0 and self.diverged < 0

    @property
    def bounded(self) -> bool:
        """Whether bounds apply that need separable points of norm 1 at most, and α > 0."""
        short = self.stack.data.radius <= 1 + 1e-9
        increases = self.stack.activation.constants.least_slope > 0
        return short and self.separable is not None and increases


def run_row(run: Run) -> Row:
    """Return the columns of a run."""
    phase, data = run.phases, run.stack.data
    limits = thresholds(run.stack.activation.constants, run.stepsize, data.radius, run.points)
    stable, settled = (first_below(run.risk, level) for level in (limits.stable, limits.settled))
    g = run.margins.normalised
    width = run.stack.width
    steps = len(run.risk) - 1
    return {
        "step_on_weights": width * run.stepsize,
        "steps": steps,
        "points": run.points,
        **phase_columns(phase, run.diverged),
        "transition_risk": run.risk[phase.transition],
        "final_risk": run.risk[-1],
        "stable_threshold": limits.stable,
        "settled_threshold": limits.settled,
        "stable_step": stable,
        "settled_step": settled,
        "conservatism": phase.lowest_rise / limits.stable,
        "margin_transition": g[phase.transition or 1],
        "margin_stable": g[stable] if stable >= 0 else math.nan,
        "margin_settled": g[settled] if settled >= 0 else math.nan,
        "margin_final": g[-1],
        "smoothed_final": run.margins.smoothed[-1],
        "auxiliary_final": run.margins.auxiliary[-1],
        "log_modified_settled": run.margins.log_modified[settled] if settled >= 0 else math.nan,
        "log_modified_final": run.margins.log_modified[-1],
        "accuracy": run.accuracy,
        "separation": math.nan if run.separable is None else run.separable,
        "bounded": int(run.bounded),
        **_after(run, settled),
        **_bounds(run, settled),
    }


def _after(run: Run, settled: int) -> Row:
    """Return how often each quantity that rises in theory falls after step s."""
    names = ("norm_falls", "auxiliary_falls", "modified_falls", "margin_falls")
    if settled < 0:
        return dict.fromkeys((*names, "margin_drawdown", "order_breaks"), math.nan)
    m = run.margins
    norm, auxiliary, log_modified, g, smoothed = tails = [
        curve[settled:]
        for curve in (run.norm, m.auxiliary, m.log_modified, m.normalised, m.smoothed)
    ]
    falls = [int((np.diff(curve) < -FALL * np.abs(curve[:-1])).sum()) for curve in tails[:4]]
    drawdown = float((np.maximum.accumulate(g) - g).max() / abs(g[-1]))
    # g_c <= g_b <= g <= g_a <= g + log(2n)/‖w‖, to rounding.
    slack = FALL * np.abs(g)
    ordered = (
        (log_modified <= np.log(auxiliary) + FALL)
        & (auxiliary <= g + slack)
        & (g <= smoothed + slack)
        & (smoothed <= g + np.log(2 * run.points) / norm + slack)
    )
    return {
        **dict(zip(names, falls, strict=True)),
        "margin_drawdown": drawdown,
        "order_breaks": int((~ordered).sum()),
    }


def _bounds(run: Run, settled: int) -> Row:
    """Return the theory's bounds as left over right: at most 1 where they hold."""
    constants, eta = run.stack.activation.constants, run.stepsize
    log_modified = run.margins.log_modified[settled] + 0.5 * math.log(run.stack.width)
    lower, upper = rate_bounds(
        run.risk, float(log_modified), settled, constants, eta, run.stack.data.radius
    )
    ratios = {"rate_lower": lower, "rate_upper_log": upper}
    names = ("average_ratio", "potential_ratio", "transition_bound", "stable_ratio")
    if not run.bounded:
        return ratios | dict.fromkeys(names, math.nan)
    average, potential = averages(run)
    return ratios | {
        "average_ratio": worst(*average),
        "potential_ratio": worst(*potential),
        "transition_bound": transition_time(constants, eta, run.gamma, run.points, run.start),
        "stable_ratio": stable_bound_ratio(run.risk, settled, constants, eta, run.gamma),
    }


def averages(run: Run) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return average risk and average gradient potential, each with its bound, t = 1, ..., T."""
    constants, eta = run.stack.activation.constants, run.stepsize
    potential, along = (curve[:, run.index] for curve in (run.curves.potential, run.curves.along))
    return (
        average_risk_bound(run.risk, constants, eta, run.gamma, run.start),
        average_potential_bound(potential, along, constants, eta, run.gamma, run.stack.width),
    )


def curve_rows(run: Run, steps: NDArray[np.int64], part: str) -> Iterator[Row]:
    """Yield the kept points of a run's curves: one row per step, with the columns that apply."""
    columns: dict[str, Array] = {
        "risk": run.risk,
        "potential": run.curves.potential[:, run.index],
        "margin": run.margins.normalised,
        "norm": run.norm,
    }
    if part == "bounds" and run.bounded:
        (average, bound), (potential, potential_bound) = averages(run)
        late = {"average_risk": average, "risk_bound": bound,
                "average_potential": potential, "potential_bound": potential_bound}  # fmt: skip
        columns |= {name: np.concatenate([[np.nan], values]) for name, values in late.items()}
    for t in steps:
        yield {"t": int(t)} | {name: float(values[t]) for name, values in columns.items()}


def largest_monotone(runs: Sequence[Run]) -> Run | None:
    """Return the run of the largest stepsize whose risk never rose, if there is one."""
    monotone = [run for run in runs if run.monotone]
    return max(monotone, key=lambda run: run.stepsize) if monotone else None


def speedups(runs: Sequence[Run], levels: Sequence[float]) -> Iterator[Row]:
    """Yield the steps of each run to each risk, next to those of the largest monotone stepsize.

    Without a monotone run there is nothing to compare with: the columns are NaN.
    """
    reference = largest_monotone(runs)
    for level in levels:
        reference_steps = math.nan if reference is None else _steps_to(reference, level)
        for run in runs:
            steps = _steps_to(run, level)
            yield {
                **run.keys, "level": level, "steps_to_level": steps,
                "monotone_stepsize": math.nan if reference is None else reference.stepsize,
                "speedup": reference_steps / steps,
            }  # fmt: skip


def _steps_to(run: Run, level: float) -> float:
    """Return the first step with a risk of at most `level`: at least 1, and NaN if never."""
    first = first_below(run.risk, level)
    return math.nan if first < 0 else float(max(1, first))


def acceleration(runs: Sequence[Run], budgets: Sequence[int]) -> Iterator[Row]:
    """Yield the risk after T steps at fixed stepsizes, and at the one nearest T/`PROPORTION`."""
    reference = largest_monotone(runs)
    ladder = np.log([run.stepsize for run in runs])
    for budget in budgets:
        schedules = {"one": 1.0, "proportional": budget / PROPORTION}
        if reference is not None:
            schedules["monotone"] = reference.stepsize
        for schedule, stepsize in schedules.items():
            run = runs[int(np.abs(ladder - math.log(stepsize)).argmin())]
            if budget < len(run.risk):
                row = {"schedule": schedule, "budget": budget, "risk": run.risk[budget]}
                yield {**run.keys, **row}


# One job: every stepsize, seed and width of a data set and activation.


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
        kept = keeper and keeper(name)
        with Progress(
            f"{part.part}, {part.data_set}, width {stack.width}", part.steps, "steps"
        ) as progress:
            curves = descend(stack, part.steps, kept, progress.reach)
        rows += measured(part, settings, stack, seeds, curves)
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


def measured(
    part: Part, settings: TwoLayerSettings, stack: RunStack, seeds: Sequence[int], curves: Curves
) -> list[Row]:  # fmt: skip
    """Return the rows of a finished stack."""
    margin = None
    if stack.direction is not None:
        margin = float((stack.data.labels * (stack.data.points @ stack.direction)).min())
    right = np.full(len(seeds), np.nan)
    if len(stack.data.test_points):
        right = accuracy(stack, curves.final)
    runs = []
    for r, seed in enumerate(seeds):
        keys = {
            "part": part.part, "data_set": part.data_set, "activation": stack.activation.name,
            "width": stack.width, "stepsize": float(stack.stepsizes[r]), "seed": seed,
        }  # fmt: skip
        runs.append(Run(stack, r, curves, keys, margin, float(right[r])))
    rows: list[Row] = []
    for run in runs:
        rows.append({"kind": "run", **run.keys, **run_row(run)})
        if run.keys["seed"] == 0 and part.part not in ("onset", "acceleration"):
            kept = kept_steps(part.steps, settings.points)
            rows += [
                {"kind": "curve", **run.keys, **row} for row in curve_rows(run, kept, part.part)
            ]
    for seed in dict.fromkeys(seeds):
        of_seed = [run for run in runs if run.keys["seed"] == seed]
        rows += [{"kind": "speedup", **row} for row in speedups(of_seed, RISK_LEVELS)]
        if part.part == "acceleration":
            accelerated = acceleration(of_seed, settings.budgets)
            rows += [{"kind": "acceleration", **row} for row in accelerated]
    return rows
