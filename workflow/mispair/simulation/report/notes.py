"""Sentences of the report on the simulation, and its settings."""

from __future__ import annotations

from mispair.report.notes import Note
from mispair.report.table import Table
from mispair.report.tables import Tables, where
from mispair.simulation.report import runs


def summary(tables: Tables) -> list[Note]:
    """Return how many runs there are."""
    if tables.simulation.empty:
        return []
    distinct = tables.simulation[["condition", *runs.RUN]].drop_duplicates()
    return [Note("simulation", "summary_runs", runs=len(distinct))]


def limits(tables: Tables) -> list[Note]:
    """Return which presets were run, with how many trials."""
    if tables.simulation.empty:
        return []
    presets = runs.presets(tables.simulation)
    trials = {name: runs.of_preset(tables.simulation, name)["trial"].nunique() for name in presets}
    missing = [name for name in runs.PRESETS if name not in presets]
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
    names = runs.presets(tables.simulation)
    entries = where(tables.provenance, artefact="simulation", condition=names)
    entries = entries[entries["key"].str.startswith("settings.")]
    rows = []
    for key, group in entries.fillna({"text": "none"}).groupby("key"):
        texts = [where(group, condition=name)["text"].unique() for name in names]
        rows.append((str(key).removeprefix("settings."), *(", ".join(sorted(t)) for t in texts)))
    if not rows:
        return []
    return [Table("Settings of the simulation", ("setting", *names), tuple(rows))]
