"""What the study puts on the pages of the report: tables, sentences, settings, and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from mispair.report.exports.runs import Run, in_order, path_of, tag_of
from mispair.report.notes import Note
from mispair.report.pages.study_pages import Drawing, Pages
from mispair.report.table import Table
from mispair.report.tables import Tables, records, where
from mispair.simulation.report import claims
from mispair.simulation.report.selections import PRESETS, RUN, of_preset, presets
from mispair.simulation.report.tables import simulation


def drawings(tables: Tables) -> list[Drawing]:
    """Return the figures of the paper without a claim."""
    return [
        Drawing(
            "figures 3 and 4",
            Note("simulation", "drawing_cosines"),
            Note("simulation", "drawing_distributions"),
            "simulation_cosines",
        )
    ]


def summary(tables: Tables) -> list[Note]:
    """Return how many runs there are."""
    if tables.simulation.empty:
        return []
    distinct = tables.simulation[["condition", *RUN]].drop_duplicates()
    return [Note("simulation", "summary_runs", runs=len(distinct))]


def limits(tables: Tables) -> list[Note]:
    """Return which presets were run, with how many trials."""
    if tables.simulation.empty:
        return []
    trials = {
        name: of_preset(tables.simulation, name)["trial"].nunique()
        for name in presets(tables.simulation)
    }
    missing = [name for name in PRESETS if name not in trials]
    return [Note("simulation", "limits_presets", trials=trials, missing=missing)]


def holes(tables: Tables) -> list[Note]:
    """Return which trainings ended early."""
    found = []
    keys = ["condition", "trained_on", "spurious_probability"]
    for metric in ("diverged_at_step", "silenced_at_step"):
        lost = where(tables.simulation, metric=metric)
        for (condition, arm, probability), group in lost.groupby(keys):
            steps = group["value"].dropna()
            found.append(
                Note("simulation", "missing_trials", condition=condition, arm=arm, event=metric,
                     probability=probability, trials=sorted(group["trial"]), first=steps.min(),
                     last=steps.max())
            )  # fmt: skip
    return found


def settings(tables: Tables) -> list[Table]:
    """Return the settings that each preset was run with, side by side."""
    names = presets(tables.simulation)
    entries = where(tables.provenance, artefact="simulation", condition=names)
    entries = entries[entries["key"].str.startswith("settings.")]
    rows = []
    for key, group in entries.fillna({"text": "none"}).groupby("key"):
        texts = [where(group, condition=name)["text"].unique() for name in names]
        rows.append((str(key).removeprefix("settings."), *(", ".join(sorted(t)) for t in texts)))
    if not rows:
        return []
    return [Table("Settings of the simulation", ("setting", *names), tuple(rows))]


DISTINGUISHING = ("tower", "source", "definition", "prompts", "margin", "bias")
"""Columns of the simulation that distinguish curves of a metric."""


def curves(tables: Tables, trained: Mapping[str, Sequence[Path]], points: int) -> list[Run]:
    """Return a run for each trial and arm of the simulation: its dynamics over epochs and steps."""
    table = tables.simulation
    keys = ["condition", "spurious_probability", "trained_on", "trial"]
    rows = table[table["bin_low"].isna() & table[["epoch", "step"]].notna().any(axis=1)]
    results = []
    for (condition, probability, arm, trial), group in rows.groupby(keys, sort=True):
        name = f"simulation/{condition}/cs~{probability:g}/{arm}/trial~{trial:g}"
        by_tag: dict[str, dict[int, float]] = {}
        for row in records(group):
            tag = tag_of([row["metric"], *(row[key] for key in DISTINGUISHING)])
            step = row["epoch"] if pd.isna(row["step"]) else row["step"]
            by_tag.setdefault(tag, {})[int(step)] = row["value"]
        keys_of_run = dict(zip(keys, (condition, probability, arm, trial), strict=True))
        results.append(Run(path_of(name), keys_of_run, tuple(in_order(by_tag))))
    return results


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    scopes=claims.scopes,
    tables=simulation,
    summary=summary,
    limits=limits,
    holes=holes,
    drawings=drawings,
    settings=settings,
    runs=curves,
)
