"""Sentences of the report on the simulation, and its settings."""

from __future__ import annotations

from mispair.core.words import count, listing
from mispair.report.table import Table
from mispair.report.tables import Tables, where
from mispair.simulation.report import runs


def summary(tables: Tables) -> list[str]:
    """Return how many runs there are."""
    if tables.simulation.empty:
        return []
    distinct = tables.simulation[["condition", *runs.RUN]].drop_duplicates()
    return [count(len(distinct), "run of the simulation", "runs of the simulation")]


def limits(tables: Tables) -> list[str]:
    """Return which presets were run, with how many trials."""
    if tables.simulation.empty:
        return []
    presets = runs.presets(tables.simulation)
    missing = [name for name in runs.PRESETS if name not in presets]
    trials = [
        count(runs.of_preset(tables.simulation, name)["trial"].nunique(), "trial")
        for name in presets
    ]
    text = ", ".join(f"{name} with {n}" for name, n in zip(presets, trials, strict=True))
    text = f"preset {text} (the paper: fifteen to twenty)"
    if missing:
        text += f"; {listing(missing)} was not run"
    return [f"Simulation: {text}."]


def holes(tables: Tables) -> list[str]:
    """Return which trainings ended early."""
    notes = []
    keys = ["condition", "trained_on", "spurious_probability"]
    for metric, event in (("diverged_at_step", "diverged"), ("silenced_at_step", "was silenced")):
        lost = where(tables.simulation, metric=metric)
        for (condition, arm, probability), group in lost.groupby(keys):
            trials = ", ".join(f"{trial:g}" for trial in sorted(group["trial"]))
            steps = sorted(group["value"].dropna())
            when = " to ".join(dict.fromkeys(f"{step:g}" for step in steps[:1] + steps[-1:]))
            noun = "trial" if len(group) == 1 else "trials"
            notes.append(
                f"Simulation, {condition}: training of {arm} {event} at C_s {probability:g}, "
                f"{noun} {trials} (step {when})."
            )
    return notes


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
