"""Tables of the stepsize study: its runs, failures, checks, and what was corrected or chosen."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from mispair.core.words import count
from mispair.report.table import Cell, Number, Table, general, or_dash, whole
from mispair.report.tables import Tables
from mispair.stepsize.cifar_files import CIFAR
from mispair.stepsize.report.runs import (
    DATA_SETS,
    SCHEDULES,
    named,
    of_parts,
    oscillates,
    slopes,
    without_monotone,
)

CORRECTED = (
    ("GELU", "φ is printed as x/2 · erf(1 + x/√2)", "x/2 · (1 + erf(x/√2))"),
    ("κ of GELU", "0.242", "0.2935, the largest z² times the normal density"),
    ("τ of theorem 4.1", "without γ², and with c₁ and c₂ exchanged",
     "128 (1 + 4κ)/(α² γ²) · max{c₂ η, c₁ n, e, u log u, u ‖w₀‖/√m}, as its proof has it"),
    ("bound of lemma C.4", "without η", "2/(α² γ² η (t − s)), as in theorem 4.1"),
    ("activation of figure 2", "the caption says leaky softplus, section 5 softplus for CIFAR-10",
     "leaky softplus on XOR, softplus on pictures; CIFAR-10 with both"),
    ("fifth point of figure 4", "its label can be read either way",
     "+1, the only one for which the points have margin 0.05"),
    ("‖x‖ ≤ 1", "assumed, and not kept by the XOR and five points of the paper",
     "thresholds have factors of R = max ‖x‖; averages and τ are judged where R ≤ 1"),
)  # fmt: skip
"""What is printed, and what was used: found in the proofs or by numbers."""

CHOSEN = (
    ("stepsizes, steps and first weights of figures 2 to 4", "not stated",
     "η as configured; standard normal weights, 0 on the two points, 0.1 on the five"),
    ("output weights", "fixed signs, drawn in no stated way", "+1 and −1 in turn"),
    ("CIFAR-10", "6,000 pictures of two classes",
     "digits of scikit-learn take its place unless cifar_dir is given"),
    ("noise around XOR’s corners", "not in the paper", "standard deviation 0.15, 50 points each"),
    ("stepsize in proportion to T", "the theorem’s constants need T of 10⁷", "η nearest T/100"),
    ("sharpness", "not measured in the paper", "the Hessian’s largest eigenvalue"),
    ("perceptron of four layers", "width 200; biases not mentioned", "width 64, no biases"),
)  # fmt: skip

LOOSE = (
    "Thresholds and τ are sufficient conditions, and loose by orders of magnitude. Shapes can be "
    "compared with the paper’s figures, curves cannot. Digits are not CIFAR-10. At the same "
    "step a large stepsize may have a smaller margin than a small one."
)


def stepsize(tables: Tables) -> list[Table]:
    """Return the tables of the study."""
    if not tables.study("stepsize"):
        return []
    return [
        _runs(tables), _slopes(tables), _failures(tables), _lists(tables), _separable(tables),
        *_written(),
    ]  # fmt: skip


def _mid(values: pd.Series, digits: int = 0) -> Number | None:
    """Return the median of several runs with their range, or the value of one."""
    low, high = values.min(), values.max()
    if not low < high:
        return or_dash(low, digits)
    return Number(values.median(), digits, low=low, high=high)


def _small(value: float) -> Number | None:
    """Return a number with two significant digits, if there is one."""
    return or_dash(value, ".2g")


def _by_stepsize(runs: pd.DataFrame) -> Iterator[tuple[tuple[Cell, ...], pd.DataFrame]]:
    """Yield the runs of each data set, activation and stepsize, with the cells that name them."""
    for (panel, eta), group in named(runs).groupby(["panel", "stepsize"], sort=False):
        yield (str(panel), general(eta)), group


def _data_set(name: str) -> str:
    return DATA_SETS.get(name, name)


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _runs(tables: Tables) -> Table:
    rows = []
    for names, group in _by_stepsize(of_parts(tables.stepsize_runs, "sweep", "multilayer")):
        settled = group[group["settled"] == 1]
        lost = len(group) - len(settled)
        rows.append((
            *names, general(group["step_on_weights"].iloc[0]), whole(len(group)),
            _mid(settled["transition"]), _mid(group["rises"]), _mid(group["peak"], 2),
            _mid(settled["stable_step"].where(settled["stable_step"] >= 0)),
            _small(group["final_risk"].median()), whole(lost) if lost else None,
        ))  # fmt: skip
    return Table(
        "Every stepsize of the sweep: median run, and range over seeds",
        ("data and activation", "η", "step on w", "runs", "oscillation over at step",
         "rises", "peak", "below the threshold at step", "risk at the end", "never settle"),
        tuple(rows),
        "A rise is a step at which the risk increases. Runs that never settle, or diverge, "
        "are counted in the last column and left out of the steps. The step on w is m η.",
        section="Phases", folded=True,
    )  # fmt: skip


def _slopes(tables: Tables) -> Table:
    every = tables.stepsize_acceleration
    budgets = sorted(every["budget"].unique())
    rows = []
    for data_set, points in every.groupby("data_set"):
        fitted = slopes(points)
        for name, label in SCHEDULES.items():
            mine = points[points["schedule"] == name].groupby("budget")["risk"].mean()
            if len(mine):
                rows.append((_data_set(str(data_set)), label,
                             *(_small(mine.get(t, math.nan)) for t in budgets),
                             or_dash(fitted.get(name, math.nan), 2)))  # fmt: skip
    return Table(
        "Risk after T steps",
        ("data", "stepsize", *(f"T = {t:,.0f}" for t in budgets), "slope"), tuple(rows),
        "Means over seeds; slopes of log risk on log T from T = 1,000. The best stepsize for each "
        "T would not be a fair comparison: on two points the largest ones reach a tiny risk within "
        "some steps, and stall.",
        section="Speed",
    )  # fmt: skip


def _failures(tables: Tables) -> Table:
    runs = tables.stepsize_runs
    failures = []
    for row in named(oscillates(runs[runs["settled"] != 1])).to_dict("records"):
        if row["diverged"] >= 0:
            fault = f"diverged and was stopped at step {row['diverged']:.0f}"
        else:
            fault = f"its risk still rose at step {row['transition'] - 1:.0f} of {row['steps']:.0f}"
        failures.append((row, fault))
    settled = named(of_parts(runs[runs["settled"] == 1], "sweep", "activations"))
    for row in settled[settled["rises"] > 0].to_dict("records"):
        same = settled[
            (settled["panel"] == row["panel"]) & (settled["part"] == row["part"])
            & (settled["seed"] == row["seed"]) & (settled["stepsize"] < row["stepsize"])
        ]  # fmt: skip
        if len(same) and row["final_risk"] > 5 * same["final_risk"].max():
            fault = "stalls: its risk ends five times above that of any smaller stepsize"
            failures.append((row, fault))
    rows = [
        (row["panel"], row["part"], general(row["width"]), general(row["stepsize"]),
         general(row["seed"]), fault, _small(row["final_risk"]))
        for row, fault in failures
    ]  # fmt: skip
    return Table(
        "Runs that never settle, diverge, or stall",
        ("data and activation", "part", "m", "η", "seed", "outcome", "risk at the end"),
        tuple(rows),
        "None of them is left out of a figure, a table or a claim without being counted.",
        section="Runs that fail",
    )  # fmt: skip


def _lists(tables: Tables) -> Table:
    rows = [
        (row["part"], _data_set(row["data_set"]), _spaced(row["activation"]),
         *(general(row[name]) for name in ("width", "seed", "smallest")))
        for row in without_monotone(tables.stepsize_runs).to_dict("records")
    ]  # fmt: skip
    return Table(
        "Lists of stepsizes without a monotone member: speed-ups have no reference",
        ("part", "data", "activation", "m", "seed", "smallest η"), tuple(rows),
        "Add smaller stepsizes to these parts of train_two_layer.grid.",
        section="Runs that fail",
    )  # fmt: skip


def _separable(tables: Tables) -> Table:
    runs = tables.stepsize_runs
    runs = runs[runs["part"] != "multilayer"]
    rows = []
    for (data_set, activation), group in runs.groupby(["data_set", "activation"]):
        if (group["bounded"] == 1).all():
            continue
        why = []
        if group["separation"].isna().any():
            why.append(
                "there are too many points to search for a plane that separates them"
                if data_set == CIFAR
                else "no plane through the origin separates the points"
            )
        if str(activation) in ("softplus", "gelu", "silu", "huber_relu"):
            why.append("the slope of the activation has no positive lower bound")
        if not why:
            why.append("points have norms above 1")
        required = "yes" if (group["part"] == "bounds").any() else None
        rows.append((_data_set(str(data_set)), _spaced(str(activation)), "; ".join(why), required))
    return Table(
        "Where theorems 3.2 and 4.1 do not apply",
        ("data", "activation", "why", "in the part `bounds`"), tuple(rows),
        "T3 and T4 are judged on all other runs only: "
        + count(int((runs["bounded"] == 1).sum()), "run") + ".",
        section="Bounds",
    )  # fmt: skip


def _written() -> list[Table]:
    section = "Corrected and chosen"
    return [
        Table("What is printed, and what was used", ("what", "printed", "used"), CORRECTED,
              "Found in the proofs, or by numbers.", section=section),
        Table("What the paper does not state, and what was chosen", ("what", "paper", "here"),
              CHOSEN, LOOSE, section=section),
    ]  # fmt: skip
