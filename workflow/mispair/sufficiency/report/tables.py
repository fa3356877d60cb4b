"""Tables of the sufficiency study: measured next to published numbers, and the checks."""

from __future__ import annotations

import math

import pandas as pd

from mispair.report import published
from mispair.report.table import Cell, Number, Table, general, or_dash, whole
from mispair.report.tables import Tables
from mispair.sufficiency.report.checks import checks
from mispair.sufficiency.report.runs import (
    ENCODERS,
    HEAD_TASKS,
    HEADS,
    TASKS,
    fit_by_prompts,
    main_flip,
    pooled,
    published_risks,
    published_trees,
    rows,
    trained,
)

SUFFICIENCY, CLASSES, HEADS_SECTION, SHIFTED, AT_PUBLISHED, CHECKS = (
    "Sufficiency", "Zero-shot classes", "Denoising and the next word", "Shifted trees",
    "At the published size", "Checks",
)  # fmt: skip
LIMITS = (
    "Intervals (95 %) are over runs, trees and seeds; for a single run they cover evaluation only."
)
DIGITS = {"clip": 3, "zsc": 3, "cdm": 3, "vlm": 4}


def sufficiency(tables: Tables, confidence: float) -> list[Table]:
    """Return the tables of the study."""
    table = tables.sufficiency
    if table.empty:
        return []
    return [
        _encoders(table, confidence),
        _information(table, confidence),
        _classes(table, confidence),
        _heads(table, confidence),
        _shifted(table, confidence),
        _anchors(table),
        _checks(tables),
    ]


def _cell(measured: pd.DataFrame, confidence: float, digits: int = 3, sign: bool = False) -> Cell:
    if measured.empty:
        return None
    mean = pooled(measured, confidence)
    return Number(mean.value, digits, sign, low=mean.low, high=mean.high)


def _encoders(table: pd.DataFrame, confidence: float) -> Table:
    runs = trained(table)
    runs = runs[runs["task"] == "clip"]
    counts = sorted(runs[runs["shifted"].isna()]["candidates"].dropna().unique())
    least = counts[0] if counts else math.nan
    results = []
    for flip, at_flip in runs.groupby("flip"):
        for arm in ("bayes", *ENCODERS, "untrained"):
            risk = rows(at_flip, arm=arm, metric="risk", candidates=least)
            if len(risk):
                divergences = (
                    rows(at_flip, arm=arm, metric="sufficiency", part="both", candidates=k)
                    for k in counts
                )
                cells = (_cell(each, confidence) for each in (risk, *divergences))
                results.append((general(flip), arm, whole(len(risk)), *cells))
    return Table(
        "Contrastive risk, and divergence from the best similarity",
        ("p", "encoders", "runs", f"risk, K = {least:g}",
         *(f"divergence, K = {k:g}" for k in counts)),
        tuple(results),
        f"{LIMITS} The divergence at K is the excess risk at K; with growing K it rises to the "
        "lack of sufficiency, which a small K understates.",
        section=SUFFICIENCY,
    )  # fmt: skip


def _information(table: pd.DataFrame, confidence: float) -> Table:
    results = []
    for flip, at_flip in trained(table).groupby("flip"):
        for part in ("image", "text"):
            held = rows(at_flip, task="clip", arm="bayes", metric="information", part=part)
            for arm in (*ENCODERS, "untrained"):
                lost = rows(at_flip, task="clip", arm=arm, metric="information_lost", part=part)
                if len(lost):
                    results.append((general(flip), part, arm, _cell(held, confidence),
                                  _cell(lost, confidence)))  # fmt: skip
    return Table(
        "Information of the leaves on the root, and how much of it a feature loses (nats)",
        ("p", "of", "encoders", "held by the leaves", "lost in the feature"),
        tuple(results),
        f"{LIMITS} An upper bound: what a perceptron reads out of the feature. Compare the "
        "untrained row: a random map is nearly one to one, so a small loss is no sign of training.",
        section=SUFFICIENCY,
        folded=True,
    )


def _classes(table: pd.DataFrame, confidence: float) -> Table:
    runs = trained(table, main_flip(table))
    runs = runs[(runs["task"] == "zsc") & runs["shifted"].isna()]
    printed = published.sufficiency_prompts().set_index(["model", "per_class"])["risk"]
    arms = [arm for arm in ("exact", *ENCODERS, "untrained") if arm in set(runs["arm"])]
    results = []
    for m in sorted(runs["per_class"].dropna().unique()):
        cells = [
            _cell(rows(runs, arm=arm, metric="risk", per_class=m), confidence)
            for arm in ("bayes", *arms)
        ]
        gap = rows(runs, arm="standard", metric="difference", reference="exact", per_class=m)
        results.append((general(m), *cells, _cell(gap, confidence, sign=True),
                      or_dash(printed.get(("standard", m)), 3)))  # fmt: skip
    fits = [
        f"{arm} {curve} (residual {residual})"
        for arm in ("exact", *ENCODERS)
        for curve, residual in fit_by_prompts(runs, arm)
    ]
    fit_text = f" Least squares from M = 10 on: {'; '.join(fits)}." if fits else ""
    return Table(
        f"Zero-shot risk by prompts for each class, p = {main_flip(table):g}",
        ("M", "Bayes", *arms, "standard − exact", "published, standard (4x3x10)"),
        tuple(results),
        f"{LIMITS} exact is the best similarity with the same prompts: the additional loss of "
        "standard comes from the feature. With few prompts exact is worse than a trained model, as "
        f"its likelihoods are peaked.{fit_text}",
        section=CLASSES,
    )


def _heads(table: pd.DataFrame, confidence: float) -> Table:
    runs = trained(table)
    results = []
    for task in HEAD_TASKS:
        digits = DIGITS[task]
        for flip, at_flip in runs[runs["task"] == task].groupby("flip"):
            for arm in ("bayes", "unconditional", *HEADS):
                risk = rows(at_flip, arm=arm, metric="risk")
                gaps = (
                    rows(at_flip, arm=arm, metric="difference", reference=reference)
                    for reference in ("bayes", "unconditional", "untrained", "oracle", "joint")
                )
                if len(risk):
                    cells = (_cell(gap, confidence, digits, sign=True) for gap in gaps)
                    results.append((TASKS[task], general(flip), arm, whole(len(risk)),
                                    _cell(risk, confidence, digits), *cells))  # fmt: skip
    return Table(
        "Risks of the heads, and differences on the same samples",
        ("task", "p", "arm", "runs", "risk", "− Bayes", "− unconditional", "− untrained",
         "− oracle", "− joint"),
        tuple(results),
        f"{LIMITS} Denoising: squared errors summed over the image's leaves. Next word: nats a "
        "word. unconditional is Bayes without the other modality: the risk of an arm above it "
        "shows no use of that modality.",
        section=HEADS_SECTION,
    )  # fmt: skip


def _shifted(table: pd.DataFrame, confidence: float) -> Table:
    runs = trained(table)
    runs = runs[runs["shifted"].notna() & (runs["reference"] == "bayes")]
    printed = published.sufficiency_shift().set_index(["task", "shifted", "flip", "model"])["risk"]
    results = []
    for (task, shifted, flip), at in runs.groupby(["task", "shifted", "test_flip"]):
        arms = ("frozen" if task in HEAD_TASKS else "standard", "misspecified", "untrained")
        cells = (_cell(at[at["arm"] == arm], confidence, sign=True) for arm in arms)
        theirs = [
            float(printed.get((task, shifted, flip, model), math.nan))
            for model in ("misspecified", "bayes")
        ]
        results.append((TASKS[str(task)], str(shifted), general(flip), *cells,
                        or_dash(theirs[0] - theirs[1], 3, sign=True)))  # fmt: skip
    return Table(
        "Excess over Bayes where p shifts",
        ("task", "shifted", "tested p", "trained", "misspecified", "untrained",
         "published misspecified − Bayes (4x3x10)"),
        tuple(results),
        f"{LIMITS} trained: standard encoders, or a head on their frozen feature. On common "
        "samples; the published risks are of different samples, so their difference may be below "
        "zero. In the classes, misspecified takes both the image’s posterior and the first leaf "
        "from the trees of the training; the published one seems to take the leaf’s from the "
        "tested trees.",
        section=SHIFTED,
        folded=True,
    )  # fmt: skip


def _anchors(table: pd.DataFrame) -> Table:
    bayes = published_trees(table)
    bayes = bayes[(bayes["arm"] == "bayes") & (bayes["metric"] == "risk")]
    results = []
    for flip in sorted(bayes["flip"].unique()):
        at_flip = bayes[bayes["flip"] == flip]
        cells: list[Cell] = []
        for task, digits in DIGITS.items():
            printed = published_risks(task, flip).get("bayes", math.nan)
            ours = _cell(at_flip[at_flip["task"] == task], 0.95, digits)
            cells += [ours, or_dash(printed, digits)]
        results.append((general(flip), *cells))
    heads = [head for name in TASKS.values() for head in (name, "published")]
    return Table(
        "Least possible risks, at the published size and trees",
        ("p", *heads),
        tuple(results),
        "By exact belief propagation, without any training. Intervals are of our samples; the "
        "published risks are means over ten thousand others.",
        section=AT_PUBLISHED,
    )


def _checks(tables: Tables) -> Table:
    results = checks(tables)
    return Table(
        f"Checks: {sum(each.passed == each.of for each in results if each.of)} of "
        f"{sum(each.of > 0 for each in results)} pass in every case",
        ("check", "passed", "of"),
        tuple((each.text, whole(each.passed), whole(each.of)) for each in results if each.of),
        "Properties that hold for any training: a failure is a fault of the programs, or chance.",
        section=CHECKS,
    )  # fmt: skip
