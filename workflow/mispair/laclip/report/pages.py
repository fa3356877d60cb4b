"""Contents of the study on the pages of the report."""

import math
from dataclasses import replace

from mispair.evaluation.sets import canonical
from mispair.image_text.report.arms import TOWERS, short
from mispair.image_text.report.tables import scores
from mispair.laclip.report import claims
from mispair.laclip.report.claims import COLUMNS, Score, stated
from mispair.laclip.report.study import OVERLAP, PUBLISHED, SCORES
from mispair.report import published, texts
from mispair.report.pages.study_pages import Pages
from mispair.report.table import Cell, Number, Table, or_dash
from mispair.report.tables import Tables, records
from mispair.report.texts import Note

# Tables of the LaCLIP study: every model next to tables 2 and 3, and LaCLIP next to CLIP.

FORMATS = {"acc1": (100, 1, "%"), "silhouette": (1, 3, "")}
"""Factor, decimal places and unit with which the numbers of a measure are printed."""

HEADS = (
    "model", "name", "evaluation set", "protocol and metric", "measured", "published", "difference",
)  # fmt: skip


def checkpoints(tables: Tables) -> list[Table]:
    """Return all tables of the study."""
    if not tables.study("laclip"):
        return []
    return [
        next_to_published(tables),
        overlap(tables),
        scores(tables.of_protocol().checkpoints, SCORES),
    ]


def next_to_published(tables: Tables) -> Table:
    """Return every accuracy and silhouette next to the published one, and what was not measured."""
    rows: list[tuple[Cell, ...]] = []
    run: set[str] = set()
    for measure in FORMATS:
        every = claims.scores(tables, measure)
        run |= {canonical(score.pretraining) for score in every}
        for score in every:
            by = (score.protocol, score.fingerprint and short(score.fingerprint), score.metric)
            rows.append((
                f"{score.pretraining} {score.architecture} {score.method}", score.towers,
                score.evaluation_set, " ".join(filter(None, by)),
                _cell(measure, score.value, score.low, score.high), _published(score),
                _difference(score),
            ))  # fmt: skip
        rows += _holes(every, measure)
    names = published.checkpoints()["pretraining"].unique()
    missing = [str(name) for name in names if canonical(name) not in run]
    return Table(
        "Accuracy and silhouette next to tables 2 and 3", HEADS, tuple(rows),
        texts.text(Note("laclip", "table_published", missing=missing)), section=PUBLISHED,
    )  # fmt: skip


def _cell(
    measure: str, value: float, low: float = math.nan, high: float = math.nan
) -> Number | None:
    factor, digits, unit = FORMATS[measure]
    if math.isnan(value):
        return None
    return Number(factor * value, digits, unit=unit, low=factor * low, high=factor * high)


def _published(score: Score) -> Number | None:
    """Return the published number, with that of LaCLIP's authors beside it."""
    cell = _cell(score.measure, score.published)
    return cell and replace(cell, beside=_cell(score.measure, score.own))


def _difference(score: Score) -> Number | None:
    cell = _cell(score.measure, score.difference)
    unit = "points" if score.measure == "acc1" else ""
    return cell and replace(cell, sign=True, unit=unit, mark=" !" * score.flagged)


def _holes(every: list[Score], measure: str) -> list[tuple[Cell, ...]]:
    """Return a row for every published number of the run's pre-trainings that was not measured."""
    measured = {(canonical(s.pretraining), canonical(s.method), s.dataset) for s in every}
    run = {key[0] for key in measured}
    return [
        (
            f"{row['pretraining']} {row['method']}", None, str(row["dataset"]), measure, Number(),
            _cell(measure, float(row[COLUMNS[measure]])), None,
        )
        for row in records(published.checkpoints())
        for key in [(canonical(row["pretraining"]), canonical(row["method"]), row["dataset"])]
        if key[0] in run and key not in measured
    ]  # fmt: skip


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
        texts.text(Note("laclip", "table_overlap")),
        section=OVERLAP,
    )  # fmt: skip


def _tables(measured: Tables, confidence: float) -> list[Table]:
    return checkpoints(measured)


def _summary(measured: Tables) -> list[Note]:
    models = measured.checkpoints["towers"].nunique()
    return [Note("laclip", "summary_models", models=models)] if models else []


PAGES = Pages(claims=claims.CLAIMS, questions=claims.QUESTIONS, tables=_tables, summary=_summary)
