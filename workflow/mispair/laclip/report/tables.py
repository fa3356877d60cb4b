"""Tables of the LaCLIP study: every model next to tables 2 and 3, and LaCLIP next to CLIP."""

from __future__ import annotations

import math
from dataclasses import replace

from mispair.core.words import MISSING, listing
from mispair.evaluation.report import datacomp
from mispair.evaluation.report.checkpoints import (
    COLUMNS,
    Score,
    facts,
    scores,
    stated,
)
from mispair.evaluation.report.comparison_evaluation import retrieval
from mispair.evaluation.report.compositional import compositional
from mispair.evaluation.report.protocols import HASHES, short
from mispair.evaluation.report.series import TOWERS
from mispair.evaluation.set_names import canonical
from mispair.laclip.report.differences import flagged, reason
from mispair.report import published, texts
from mispair.report.table import Cell, Number, Table, or_dash
from mispair.report.tables import Tables, records

PUBLISHED = "Next to tables 2 and 3"
MODELS = "The models"
OVERLAP = "Overlap of neurons"
RETRIEVAL = "Retrieval"
"""Sections of the page."""

FORMATS = {"acc1": (100, 1), "silhouette": (1, 3)}
"""Factor and decimal places with which the numbers of a measure are printed."""

HEADS = {
    "acc1": ("model", "name", "evaluation set", "protocol", "headline metric", "measured (%)",
             "published (%)", "difference (points)", "LaCLIP’s own (%)", "likely reason"),
    "silhouette": ("model", "name", "evaluation set", "measured", "published", "difference",
                   "likely reason"),
}  # fmt: skip
"""Heads of the tables next to the published ones, by measure."""

FACTS = (
    "recipe", "activation.image", "activation.text", "mean", "std", "interpolation", "recipe_hash",
    "sha256",
)  # fmt: skip


def checkpoints(tables: Tables) -> list[Table]:
    """Return all tables of the study."""
    if not tables.study("laclip"):
        return []
    return [
        _next_to_published(tables, "acc1"),
        _next_to_published(tables, "silhouette"),
        overlap(tables),
        retrieval(tables.checkpoints, RETRIEVAL),
        *compositional(tables.checkpoints),
        *datacomp.datacomp(tables.checkpoints, datacomp.SECTION),
        _models(tables),
    ]


def _next_to_published(tables: Tables, measure: str) -> Table:
    every = scores(tables, measure)
    facts_of = facts(tables)
    metrics = _all_metrics(tables)
    is_share = measure == "acc1"
    rows: list[tuple[Cell, ...]] = []
    for score in every:
        why = None
        if flagged(score):
            key = (score.towers, score.evaluation_set, score.protocol or "")
            likely = reason(score, every, metrics.get(key, {}), facts_of.get(score.towers, {}))
            why = texts.sentence("laclip", "reason", *likely)
        rows.append((
            f"{score.pretraining} {score.architecture} {score.method}", score.towers,
            score.evaluation_set,
            *([f"{score.protocol} {short(score.fingerprint)}", score.metric] if is_share else []),
            _cell(measure, score.value, score.low, score.high), _cell(measure, score.published),
            _difference(score), *([_cell(measure, score.own)] if is_share else []), why,
        ))  # fmt: skip
    rows += _holes(every, measure)
    rules = texts.sentence("laclip", "reason", "rules")
    remarks = ("With 95 % intervals.", HASHES if is_share else "", rules, _not_run(every))
    remark = " ".join(filter(None, remarks))
    title = "Accuracy" if is_share else "Silhouette"
    return Table(
        f"{title} next to tables 2 and 3", HEADS[measure], tuple(rows), remark, section=PUBLISHED
    )


def _all_metrics(tables: Tables) -> dict[tuple[str, str, str], dict[str, float]]:
    by_set: dict[tuple[str, str, str], dict[str, float]] = {}
    table = tables.checkpoints.dropna(subset=["protocol"])
    for key, group in table.groupby(["towers", "evaluation_set", "protocol"]):
        towers, name, protocol = map(str, key)
        values = group.drop_duplicates("metric").set_index("metric")["value"]
        by_set[towers, name, protocol] = {str(metric): float(v) for metric, v in values.items()}
    return by_set


def _cell(
    measure: str, value: float, low: float = math.nan, high: float = math.nan
) -> Number | None:
    factor, digits = FORMATS[measure]
    if math.isnan(value):
        return None
    return Number(factor * value, digits, low=factor * low, high=factor * high)


def _difference(score: Score) -> Number | None:
    cell = _cell(score.measure, score.difference)
    return cell if cell is None else replace(cell, sign=True, mark=" !" * flagged(score))


def _holes(every: list[Score], measure: str) -> list[tuple[Cell, ...]]:
    """Return a row for every published number of the run's pre-trainings that was not measured."""
    measured = {(canonical(s.pretraining), canonical(s.method), s.dataset) for s in every}
    run = {key[0] for key in measured}
    before, after = ((None,) * 2, (None,) * 3) if measure == "acc1" else ((), (None,) * 2)
    rows: list[tuple[Cell, ...]] = []
    for row in records(published.checkpoints()):
        key = (canonical(row["pretraining"]), canonical(row["method"]), row["dataset"])
        if key[0] in run and key not in measured:
            value = _cell(measure, float(row[COLUMNS[measure]]))
            rows.append((f"{row['pretraining']} {row['method']}", None, str(row["dataset"]),
                         *before, Number(), value, *after))  # fmt: skip
    return rows


def _not_run(every: list[Score]) -> str:
    run = {canonical(score.pretraining) for score in every}
    names = published.checkpoints()["pretraining"].unique()
    missing = [name for name in names if canonical(name) not in run]
    return f"No model of {listing(missing)} is in this run." if missing else ""


def _overlaps(tables: Tables, metric: str) -> dict[tuple[str, str], float]:
    """Return a measure of overlap of every checkpoint by its name and tower."""
    rows = tables.checkpoints[tables.checkpoints["metric"] == metric].dropna(subset=["tower"])
    return {(str(row["towers"]), str(row["tower"])): float(row["value"]) for row in records(rows)}


def overlap(tables: Tables) -> Table:
    """Return mean |cos| of both towers of every checkpoint next to that of random directions."""
    labels = tables.checkpoints.drop_duplicates("towers").set_index("towers")
    measured, random, rank = (
        _overlaps(tables, metric)
        for metric in ("mean_abs_cosine", "random_reference", "participation_ratio")
    )
    names = sorted({name for name, _ in measured})
    columns = ((measured, 4), (random, 4), (rank, 1))
    rows = tuple(
        (
            name,
            *(
                stated(labels.loc[name, label])
                for label in ("pretraining", "method", "architecture")
            ),
            *(
                or_dash(values.get((name, tower)), digits)
                for tower in TOWERS
                for values, digits in columns
            ),
        )
        for name in names
    )
    return Table(
        "Overlap of neurons in the checkpoints’ own projections",
        ("name", "pre-training", "method", "architecture", "text: mean |cos|",
         "of random directions", "participation ratio", "image: mean |cos|", "of random directions",
         "participation ratio"),
        rows,
        "Neurons are the columns of the final projections. The paper predicts lower values for "
        "LaCLIP. A low mean |cos| means a flat spectrum of the projection, not that single neurons "
        "follow single features.",
        section=OVERLAP,
    )  # fmt: skip


def _models(tables: Tables) -> Table:
    facts_of = facts(tables)
    labels = tables.checkpoints.drop_duplicates("towers").set_index("towers")
    rows = []
    for name in sorted({*labels.index, *facts_of}):
        of_model = facts_of.get(name, {})
        stated = [
            str(labels.loc[name, column])
            if name in labels.index and isinstance(labels.loc[name, column], str)
            else of_model.get(column, "not stated")
            for column in ("pretraining", "method", "architecture")
        ]
        measured = "yes" if name in labels.index else MISSING
        rows.append((name, *stated, *(of_model.get(fact) for fact in FACTS[:-1]),
                     of_model.get("sha256", "")[:16] or None, measured))  # fmt: skip
    return Table(
        "What every number’s model is",
        ("name", "pre-training", "method", "architecture", "recipe", "activation, image tower",
         "activation, text tower", "mean", "deviation", "interpolation", "hash of the recipe",
         "SHA-256 of the file", "measured"),
        tuple(rows),
        "From the folder of the converted checkpoint; a folder that was not converted states "
        "nothing.",
        section=MODELS,
    )  # fmt: skip
