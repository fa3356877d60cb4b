"""Tables of the sufficiency study: measured next to published numbers, and the ten checks."""

from __future__ import annotations

import math
from collections import Counter

import pandas as pd

from mispair.core.words import interval, number
from mispair.report import published
from mispair.report.statistics import Interval
from mispair.report.table import Table, or_dash
from mispair.report.tables import Tables
from mispair.sufficiency.report.checks import LEVELS, checks
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
    worths,
)

SUFFICIENCY, CLASSES, HEADS_SECTION, SHIFTED, AT_PUBLISHED, TEN = (
    "Sufficiency", "Zero-shot classes", "Denoising and the next word", "Shifted trees",
    "At the published size", "Ten checks",
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
        *(_shifted(table, task, confidence) for task in TASKS),
        _anchors(table),
        *(_worths(table, task) for task in HEAD_TASKS),
        _checks(tables),
    ]


def _cell(measured: pd.DataFrame, confidence: float, digits: int = 3, sign: bool = False) -> str:
    if measured.empty:
        return "–"
    return _with_limits(pooled(measured, confidence), digits, sign)


def _with_limits(value: Interval, digits: int, sign: bool = False) -> str:
    text = number(value.value, digits, sign)
    if value.known:
        text += f" ({interval(value.low, value.high, digits, sign)})"
    return text.replace(" ", "\u00a0")


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
                results.append((f"{flip:g}", arm, str(len(risk)), *cells))
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
                    results.append((f"{flip:g}", part, arm, _cell(held, confidence),
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
        results.append((f"{m:g}", *cells, _cell(gap, confidence, sign=True),
                      or_dash(float(printed.get(("standard", m), math.nan)), 3)))  # fmt: skip
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
                    results.append((TASKS[task], f"{flip:g}", arm, str(len(risk)),
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


def _shifted(table: pd.DataFrame, task: str, confidence: float) -> Table:
    runs = trained(table)
    runs = runs[(runs["task"] == task) & runs["shifted"].notna()]
    runs = runs[(runs["reference"] == "bayes") | (runs["arm"] == "bayes")]
    printed = published.sufficiency_shift().set_index(["task", "shifted", "flip", "model"])["risk"]
    order = ("misspecified", "exact", "unconditional", "standard", *HEADS[:-1], "untrained")
    arms = [arm for arm in dict.fromkeys(order) if arm in set(runs["arm"])]
    results = []
    for shifted in ("both", "image", "text"):
        for flip, at in runs[runs["shifted"] == shifted].groupby("test_flip"):
            misspecified, best = (
                float(printed.get((task, shifted, flip, model), math.nan))
                for model in ("misspecified", "bayes")
            )
            excess = (at[(at["arm"] == arm) & (at["metric"] == "difference")] for arm in arms)
            bayes = at[(at["arm"] == "bayes") & (at["metric"] == "risk")]
            results.append((shifted, f"{flip:g}", _cell(bayes, confidence),
                          *(_cell(each, confidence, sign=True) for each in excess),
                          or_dash(misspecified - best, 3, sign=True)))  # fmt: skip
    remark = (
        " Misspecified takes both the image's posterior and the first leaf from the trees of the "
        "training; the published one seems to take the leaf's from the tested trees."
        if task == "zsc"
        else ""
    )
    return Table(
        f"{TASKS[task]}: excess over Bayes where p shifts",
        ("shifted", "tested p", "Bayes", *arms, "published misspecified − Bayes (4x3x10)"),
        tuple(results),
        f"{LIMITS} On common samples; the published Bayes and misspecified risks are of different "
        f"samples, so their difference may be below zero.{remark}",
        section=SHIFTED,
        folded=task != "clip",
    )


def _anchors(table: pd.DataFrame) -> Table:
    bayes = published_trees(table)
    bayes = bayes[(bayes["arm"] == "bayes") & (bayes["metric"] == "risk")]
    results = []
    for flip in sorted(bayes["flip"].unique()):
        at_flip = bayes[bayes["flip"] == flip]
        cells = []
        for task, digits in DIGITS.items():
            printed = published_risks(task, flip).get("bayes", math.nan)
            ours = _cell(at_flip[at_flip["task"] == task], 0.95, digits)
            cells += [ours, or_dash(printed, digits)]
        results.append((f"{flip:g}", *cells))
    heads = [head for name in TASKS.values() for head in (name, "published")]
    return Table(
        "Least possible risks, at the published size and trees",
        ("p", *heads),
        tuple(results),
        "By exact belief propagation, without any training. Intervals are of our samples; the "
        "published risks are means over ten thousand others.",
        section=AT_PUBLISHED,
    )


def _worths(table: pd.DataFrame, task: str) -> Table:
    digits = DIGITS[task]
    models = ("frozen", "joint", "guided", "shallow")
    results = []
    for each in worths(table, task):
        cells = (
            f"{number(each.excess[model], digits, sign=True)}{'' if each.below(model) else ' !'}"
            for model in models
        )
        results.append((f"{each.flip:g}", number(each.bayes, digits),
                      number(each.unconditional, digits), _with_limits(each.worth, digits),
                      number(each.published, digits), *cells))  # fmt: skip
    source = "text" if task == "cdm" else "image"
    remark = (
        "The text is worth so little at this size that the risks of most published models do not "
        "show that they use it. This is no evidence against the features: a head that underfits "
        "loses as much with a perfect one. The claim can be tested on the smaller trees above."
        if task == "cdm"
        else "The same for the next word, where the image's worth is well above what models lose."
    )
    return Table(
        f"{TASKS[task]}: what the {source} is worth, and what published models lose",
        ("p", "Bayes", f"Bayes without the {source}", f"the {source} is worth",
         "published Bayes", *(f"{model}, published" for model in models)),
        tuple(results),
        f"Worth: Bayes without the {source} minus Bayes with it, on the same samples. Models: "
        "excess over published Bayes, which is of other samples. An exclamation mark: it is "
        f"not below the lower end of what the {source} is worth. {remark}",
        section=AT_PUBLISHED,
    )  # fmt: skip


def _checks(tables: Tables) -> Table:
    results = checks(tables)
    label_of = {"passes": "passed", "fails": "failed"}  # else the result itself
    counts = Counter(label_of.get(check.result, check.result) for check in results)
    order = ("passed", "failed", "noted", "not measured")
    return Table(
        "Ten checks: " + ", ".join(f"{counts[word]} {word}" for word in order if counts[word]),
        ("", "check", "result", "of runs and numbers"),
        tuple((str(each.number), each.text, each.result, each.measured) for each in results),
        f"A check passes if it passes in every run. {LEVELS}",
        section=TEN,
    )  # fmt: skip
