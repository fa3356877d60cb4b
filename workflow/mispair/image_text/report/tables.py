"""Printed tables of models: protocols, other scores, and measures over pairs of towers."""

import pandas as pd

from mispair.evaluation.retrieval import BLIND, SELECTION
from mispair.image_text.report.arms import (
    base_arm,
    change,
    model_label,
    models,
    short,
    zeroshot_series,
)
from mispair.image_text.report.rows import CHANGE
from mispair.image_text.report.study import PROTOCOLS, REPLICATES, SCORES
from mispair.report.table import Cell, Number, Table, between, or_dash, whole, with_interval
from mispair.report.tables import Row, Tables, records
from mispair.report.texts import Note, text
from mispair.towers.arms import LABELS, PRETRAINED

HEADLINES = ("acc1", "acc5", "mean_per_class_recall")


def of_arms(tables: Tables) -> list[Table]:
    """Return the tables of the arms of the main scheme; those without rows are not printed.

    They are of the main protocol, except those of protocols.
    """
    arms = tables.of_scheme()
    return [*protocols(tables), scores(_ends(arms.of_protocol().zeroshot), SCORES)]


def _ends(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the untouched model, and of both ends of C_m from its projections."""
    tuned = table[table["start"] == "pretrained"]
    ends = tuned["rate"].isin([tuned["rate"].min(), tuned["rate"].max()])
    return pd.concat([table[table["start"] == "untouched"], tuned[ends]])


def protocols(tables: Tables) -> list[Table]:
    """Return the scores of the same model under every protocol, on every evaluation set."""
    names = tables.protocols
    tables = tables.of_scheme()
    table = tables.zeroshot[tables.zeroshot["protocol"].isin(names)]
    table = table[table["classname"].isna()]
    rows = []
    for evaluation_set, of_set in table.groupby("evaluation_set"):
        first: float | None = None
        for name in [name for name in names if name in set(of_set["protocol"])]:
            of_protocol = of_set[of_set["protocol"] == name]
            headline = next(iter(of_protocol["headline"].dropna()), "acc1")
            found = base_arm(of_protocol)
            value = found.loc[found["metric"] == headline, "value"].mean()
            first = value if first is None else first
            series = zeroshot_series(tables.of_protocol(name), "pretrained", headline,
                                     str(evaluation_set))  # fmt: skip
            prompts = [short(text) for text in of_protocol["fingerprint"].dropna()[:1]]
            rows.append((
                str(evaluation_set), f"{' '.join([name, *prompts])}, {headline}",
                *(with_interval(found[found["metric"] == metric]) for metric in HEADLINES),
                None if value is first else or_dash(value - first, 3, sign=True),
                or_dash(change(series), 3, sign=True),
            ))  # fmt: skip
    if not rows:
        return []
    arm = base_arm(table)
    model = model_label(records(arm)[0])
    heads = (metric.replace("_", " ") for metric in HEADLINES)
    return [
        Table(
            f"The same model under every protocol: {model}",
            ("evaluation set", "protocol and its headline", *heads,
             "headline − its first protocol’s", f"headline’s change, {LABELS[PRETRAINED]}"),
            tuple(rows),
            text(Note("image_text", "table_protocols", main=names[0], others=names[1:])),
            section=PROTOCOLS,
        )
    ]  # fmt: skip


# Other scores ------------------------------------------------------------------------------------

OTHER = {
    "image_recall@1": "retrieval, image by caption: recall at 1",
    "text_recall@1": "retrieval, caption by image: recall at 1",
    SELECTION: "choice of the true caption",
    BLIND: "the same without the image",
    "group_score": "choice in sets of two images and captions: group score",
    "probe_acc1": "linear probe: accuracy",
}
"""Measures besides classification by prompts, in words."""


def scores(table: pd.DataFrame, section: str) -> Table:
    """Return retrieval, choice of captions and linear probes of arms or of checkpoints.

    Each score is next to the level it is compared with: chance, or for a probe the zero-shot
    accuracy.
    """
    of_set = table[table["classname"].isna()]
    rows = [
        (
            str(model["evaluation_set"]), words, model_label(model),
            whole(measured["n"].max()), with_interval(measured), or_dash(_level(of_set, measured)),
        )
        for metric, words in OTHER.items()
        for model, measured in models(of_set[of_set["metric"] == metric], "evaluation_set")
    ]  # fmt: skip
    return Table(
        "Retrieval, choice of the true caption, and linear probe",
        ("evaluation set", "score", "model", "n", "value", "chance, or zero-shot of a probe"),
        tuple(rows),
        text(Note("image_text", "table_scores")),
        section=section,
    )


def _level(table: pd.DataFrame, measured: pd.DataFrame) -> float:
    if (measured["metric"] != "probe_acc1").all():
        return float(measured["chance"].mean())
    keys = [key for key in ("start", "rate", "towers", "evaluation_set") if key in table]
    zeroshot = table[table["metric"] == "acc1"].merge(measured[keys].drop_duplicates(), on=keys)
    return float(zeroshot["value"].mean())


# Measures in which a pair of towers is the replicate.


MEASURES = {
    "mean_abs_cosine": ("mean |cos|", 4),
    "log_participation_ratio": ("ln of the participation ratio", 3),
    "acc1": ("zero-shot accuracy, mean of the sets", 3),
    "selection_acc": ("right choices on compositional sets", 3),
    "mean_rank_correlation": ("ρ of mean |cos| with purity and selectivity", 3),
    "mean_rank_correlation_over_rotated": ("the same − its mean in rotated bases", 3),
    "mean_semantic_purity": ("semantic purity", 3),
}
"""Measures that are printed, in words, and their digits."""

HEADS = (
    "measure", "tower", "start", "scheme", "C_m", "quantity", "mean", "interval", "towers",
)  # fmt: skip


def replicates(tables: Tables) -> list[Table]:
    """Return levels and changes of the measures, with intervals over pairs of towers."""
    measured = tables.tower_intervals
    order = {metric: place for place, metric in enumerate(MEASURES)}
    measured = measured[measured["metric"].isin(order)]
    measured = measured.sort_values("metric", key=lambda names: names.map(order), kind="stable")
    if measured.empty:
        return []
    return [
        Table(
            "Measures over pairs of towers",
            HEADS,
            tuple(_cells(row) for row in records(measured)),
            text(Note("image_text", "table_replicates")),
            section=REPLICATES,
        )
    ]


def _cells(row: Row) -> tuple[Cell, ...]:
    name, digits = MEASURES[str(row["metric"])]
    is_signed = row["quantity"] == CHANGE
    row = {**row, "start": LABELS.get(str(row["start"]), row["start"])}
    arm = (None if pd.isna(row[key]) else str(row[key]) for key in ("tower", "start", "scheme"))
    shown = Number(row["value"], digits, is_signed)
    limits = between(row["low"], row["high"], digits, is_signed)
    return name, *arm, or_dash(row["rate"], "g"), row["quantity"], shown, limits, whole(row["n"])
