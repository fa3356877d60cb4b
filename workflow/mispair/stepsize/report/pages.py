"""What the study puts on the pages of the report: its tables, and notes for other pages."""

from __future__ import annotations

import pandas as pd

from mispair.report import texts
from mispair.report.notes import Note
from mispair.report.pages.study_pages import Pages
from mispair.report.table import Table, general, or_dash
from mispair.report.tables import Tables
from mispair.stepsize.report import claims
from mispair.stepsize.report.claims import (
    DATA_SETS,
    SAME_LIST,
    monotone,
    named,
    of_parts,
    oscillates,
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


def _tables(tables: Tables, confidence: float) -> list[Table]:
    if not tables.study("stepsize"):
        return []
    runs = tables.stepsize_runs
    return [
        _failures(runs), _lists(runs),
        Table("Corrected and chosen", ("what", "in the paper", "here"), CORRECTED + CHOSEN,
              texts.text(Note("stepsize", "table_written")), section="Corrected and chosen"),
    ]  # fmt: skip


def _words(name: object) -> str:
    """Return a data set, or an activation, in words."""
    return DATA_SETS.get(str(name), str(name).replace("_", " "))


def _failures(runs: pd.DataFrame) -> Table:
    """Return the runs that never settle or diverge, and those of the sweep that stall."""
    failures = []
    for row in named(oscillates(runs[runs["settled"] != 1])).to_dict("records"):
        fault = Note(
            "stepsize", "cell_fails", stopped=row["diverged"], last=row["transition"] - 1,
            steps=row["steps"],
        )  # fmt: skip
        failures.append((row, fault))
    settled = named(of_parts(runs[runs["settled"] == 1], "sweep", "activations"))
    for row in settled[settled["rises"] > 0].to_dict("records"):
        same = settled[
            (settled["panel"] == row["panel"]) & (settled["part"] == row["part"])
            & (settled["seed"] == row["seed"]) & (settled["stepsize"] < row["stepsize"])
        ]  # fmt: skip
        if len(same) and row["final_risk"] > 5 * same["final_risk"].max():
            failures.append((row, Note("stepsize", "cell_stalls")))
    rows = [
        (row["panel"], row["part"], *(general(row[name]) for name in ("width", "stepsize", "seed")),
         texts.text(fault), or_dash(row["final_risk"], ".2g"))
        for row, fault in failures
    ]  # fmt: skip
    return Table(
        "Runs that never settle, diverge, or stall",
        ("data and activation", "part", "m", "η", "seed", "outcome", "risk at the end"),
        tuple(rows), texts.text(Note("stepsize", "table_failures")), section="Runs that fail",
    )  # fmt: skip


def _lists(runs: pd.DataFrame) -> Table:
    """Return the lists of stepsizes without a monotone run, which have no speed-up."""
    lists = of_parts(runs, "sweep", "onset", "acceleration", "multilayer").groupby(SAME_LIST)
    rows = [
        (str(part), _words(data_set), _words(activation), general(width), general(seed),
         general(group["stepsize"].min()))
        for (part, data_set, activation, width, seed), group in lists
        if monotone(group).empty
    ]  # fmt: skip
    return Table(
        "Lists of stepsizes without a monotone member",
        ("part", "data", "activation", "m", "seed", "smallest η"),
        tuple(rows), texts.text(Note("stepsize", "table_lists")), section="Runs that fail",
    )  # fmt: skip


def _summary(tables: Tables) -> list[Note]:
    runs = len(tables.stepsize_runs)
    return [Note("stepsize", "summary_runs", runs=runs)] if runs else []


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    tables=_tables,
    summary=_summary,
)
