"""Tables of retrieval and linear probes, and warnings of wrong class lists."""

from __future__ import annotations

import math

import pandas as pd

from mispair.evaluation.report import datacomp
from mispair.evaluation.report.arm_words import by_metric, cell, model_label, models
from mispair.evaluation.report.compositional import compositional
from mispair.evaluation.report.protocols import HASHES, named, short
from mispair.report.notes import Note
from mispair.report.table import Table, or_dash, whole
from mispair.report.tables import Tables

SECTION = "Retrieval and linear probe"
BEST = (1, 5, 10)
UNFOLDED = 12
"""Rows of the longest table that is shown unfolded."""

NAMED_CLASSES = 5
"""Most classes of a kind that are named; further ones are counted."""


def evaluation(tables: Tables) -> list[Table]:
    """Return the tables of the image-text study's arms.

    They are of the main protocol, except those of DataComp's means.
    """
    table = tables.of_scheme().of_protocol().zeroshot
    return [
        *datacomp.datacomp(tables.of_scheme().zeroshot, "Protocols"),
        *compositional(table),
        retrieval(table, SECTION),
        _probe(table),
    ]


def retrieval(table: pd.DataFrame, section: str) -> Table:
    """Return recall at 1, 5 and 10 in both directions, with the numbers of images and captions.

    The rows are of arms or of checkpoints.
    """
    recalls = table[table["metric"].str.match(r"(?:image|text)_recall@\d+$", na=False)]
    rows = []
    for arm, of_recalls in models(recalls, "evaluation_set"):
        of_arm = by_metric(of_recalls)
        images, captions = (
            float(of_arm[metric]["n"].max()) if metric in of_arm else float("nan")
            for metric in ("text_recall@1", "image_recall@1")
        )
        rows.append((
            f"{arm['evaluation_set']} (captions {short(arm['fingerprint'])})", model_label(arm),
            whole(images), whole(captions),
            or_dash(captions / images if images else float("nan"), 2),
            *(cell(of_arm, f"{way}_recall@{k}") for way in ("image", "text") for k in BEST),
        ))  # fmt: skip
    return Table(
        "Retrieval: recall at 1, 5 and 10",
        ("set of pairs", "model", "images", "captions", "captions per image",
         *(f"{way}, R@{k}" for way in ("image by caption", "caption by image") for k in BEST)),
        tuple(rows),
        "Image by caption: share of captions whose image is among the first k. Caption by image: "
        "share of images with one of their captions among the first k. One run has Wilson's 95 % "
        "interval; several have mean ± 1 standard deviation over seeds.",
        folded=len(rows) > UNFOLDED,
        section=section,
    )  # fmt: skip


def _probe(table: pd.DataFrame) -> Table:
    names = ("probe_acc1", "acc1", "probe_mean_per_class_recall", "mean_per_class_recall")
    probed = table.loc[table["metric"] == "probe_acc1", "evaluation_set"]
    scores = table[table["metric"].isin(names) & table["evaluation_set"].isin(probed)]
    rows = []
    for arm, of_scores in models(scores, "evaluation_set"):
        of_arm = by_metric(of_scores)
        if "probe_acc1" not in of_arm:
            continue
        zeroshot = of_arm.get("acc1", scores[:0])
        gain = of_arm["probe_acc1"]["value"].mean() - zeroshot["value"].mean()
        set_name = f"{arm['evaluation_set']} ({named(zeroshot)})"
        rows.append((set_name, model_label(arm), *(cell(of_arm, name) for name in names),
                     or_dash(100 * gain, 1, sign=True)))  # fmt: skip
    return Table(
        "Linear probe next to zero-shot classification, the same image embeddings",
        ("evaluation set", "model", "probe, acc1", "zero-shot, acc1",
         "probe, mean per class", "zero-shot, mean per class", "probe − zero-shot, acc1 (points)"),
        tuple(rows),
        "The probe is scikit-learn's logistic regression on the embeddings of the set's training "
        f"split; it may be fitted to fewer seeds. {HASHES}",
        folded=len(rows) > UNFOLDED,
        section=SECTION,
    )  # fmt: skip


def warnings(tables: Tables) -> list[Note]:
    """Return a warning for every class list that does not fit its labels, or has empty classes."""
    found: list[Note] = []
    for table in (tables.zeroshot, tables.checkpoints):
        flagged = table[(table["metric"] == "label_check_flagged") & (table["value"] > 0)]
        for key, group in flagged.groupby(["evaluation_set", "protocol"]):
            name, protocol = map(str, key)
            of_list = table[(table["evaluation_set"] == name) & (table["protocol"] == protocol)]
            means = of_list.groupby("metric")["value"].mean()
            found.append(
                Note("evaluation", "warning_class_list", name=name, protocol=named(group),
                     listed=means.get("label_check_listed_acc1", math.nan),
                     matched=means.get("label_check_relabelled_acc1", math.nan))
            )  # fmt: skip
        found += _empty_classes(table)
    return [note for position, note in enumerate(found) if note not in found[:position]]


def _empty_classes(table: pd.DataFrame) -> list[Note]:
    missing = table[table["metric"] == "class_without_images"]
    found = []
    for set_name, rows in missing.groupby("evaluation_set"):
        names = sorted(rows["classname"].dropna().unique())
        shown, more = names[:NAMED_CLASSES], len(names[NAMED_CLASSES:])
        found.append(
            Note("evaluation", "warning_empty_classes", name=set_name, classes=shown, more=more)
        )
    return found
