"""What the page says of data and run: counts, swaps, run times, versions, fingerprints, holes."""

from __future__ import annotations

import csv
import io
import math
import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import pandas as pd

from mispair import __version__
from mispair.core.words import count, duration
from mispair.report.table import Table
from mispair.report.tables import Tables
from mispair.report.tables import records as rows_of
from mispair.simulation.report.simulation_runs import presets

PACKAGES = {
    "torch": "torch", "open_clip": "open_clip_torch", "Snakemake": "snakemake", "NumPy": "numpy",
    "pandas": "pandas", "scikit-learn": "scikit-learn", "SciPy": "scipy", "Altair": "altair",
    "vl-convert": "vl-convert-python",
}  # fmt: skip


def run_times(benchmarks: Mapping[str, str]) -> Table | None:
    """Sum Snakemake's benchmark files by step.

    Parameters
    ----------
    benchmarks : mapping of str to str
        Path relative to the folder of benchmarks, and the file's text. The first part of the path
        names the step.
    """
    rows = []
    for name, text in benchmarks.items():
        step = name.replace("\\", "/").split("/")[0].removesuffix(".tsv")
        for line in csv.DictReader(io.StringIO(text), delimiter="\t"):
            rows.append(
                {"step": step, "s": _float(line.get("s")), "rss": _float(line.get("max_rss"))}
            )
    table = pd.DataFrame(rows, columns=["step", "s", "rss"]).dropna(subset=["s"])
    if table.empty:
        return None
    grouped = table.groupby("step").agg(
        jobs=("s", "size"), total=("s", "sum"), longest=("s", "max"), rss=("rss", "max")
    )
    whole = grouped["total"].sum()
    ordered = grouped.reset_index().sort_values(
        ["total", "step"], ascending=[False, True], kind="stable"
    )
    cells = [
        (
            row["step"], str(row["jobs"]), duration(row["total"]),
            f"{100 * row['total'] / max(whole, 1e-9):.1f} %", duration(row["longest"]),
            f"{row['rss']:,.0f} MB" if math.isfinite(row["rss"]) else "–",
        )
        for row in rows_of(ordered)
    ]  # fmt: skip
    cells.append(("all steps", str(len(table)), duration(whole), "100 %",
                  duration(table["s"].max()), ""))  # fmt: skip
    return Table(
        "Run time of the steps",
        ("step", "jobs", "sum", "share", "longest job", "most memory"),
        tuple(cells),
        "Sums over jobs, each as it last ran; jobs that run side by side count in full.",
    )


def _float(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan


def origin(record: Mapping[str, Any]) -> Table:
    """Return what the run was made with, in short (`mispair.core.run_record`)."""
    git, steps = record["git"], record["steps"].values()
    jobs, wall, core = (
        sum(step[key] for step in steps) for key in ("jobs", "wall_seconds", "core_seconds")
    )

    def all_of(key: str) -> str:
        """Name everything that the steps list under a key."""
        found = {str(value) for step in steps for value in step[key] if value is not None}
        return ", ".join(sorted(found)) or "none"

    state = "with changes" if git.get("difference") else "as committed"
    rows = (
        ("mispair", record["mispair"]),
        ("commit", f"{git['commit']}, {state}" if git.get("commit") else "none: no checkout"),
        ("commits of the results", all_of("commits")),
        ("devices", all_of("devices")),
        ("system", f"{record['platform']['system']}, {record['platform']['cores']} cores"),
        ("results", f"{count(len(record['results']), 'file')} of {count(jobs, 'job')}"),
        ("results without a record", str(len(record["unrecorded"]))),
        ("seeds", all_of("seeds")),
        ("time", f"{duration(wall)}, of processors {duration(core)}"),
    )
    return Table("What this run was made with", ("what", "which"), rows)


def versions() -> Table:
    """Return the versions of what the page was made with."""
    rows = [("mispair", __version__), ("Python", platform.python_version())]
    for name, package in PACKAGES.items():
        try:
            rows.append((name, metadata.version(package)))
        except metadata.PackageNotFoundError:
            rows.append((name, "not installed"))
    return Table("Versions", ("software", "version"), tuple(rows))


def fingerprints(tables: Tables) -> Table | None:
    """Return the fingerprints of data, towers and class lists, each with where it was found."""
    table = tables.provenance
    table = table[table["text"].fillna("") != ""]
    last = table["key"].str.rsplit(".", n=1).str[-1]
    own = table[last.str.contains("fingerprint") | last.isin(["towers", "model_fingerprint"])]
    if own.empty:
        return None
    named = own.assign(what=own["key"].str.removeprefix("projection."))
    rows = [
        (str(what), str(text), ", ".join(sorted(group["artefact"].dropna().unique())))
        for (what, text), group in named.groupby(["what", "text"])
    ]
    return Table("Fingerprints", ("of", "fingerprint", "found in"), tuple(rows))


def settings_of(tables: Tables) -> Table | None:
    """Return the settings that each preset of the simulation was run with, side by side."""
    table = tables.provenance
    own = table[(table["artefact"] == "simulation") & table["key"].str.startswith("settings.")]
    names = presets(tables.simulation)
    own = own[own["condition"].isin(names)]
    rows = []
    for key, group in own.groupby("key"):
        cells = [
            ", ".join(sorted(group.loc[group["condition"] == name, "text"].fillna("none").unique()))
            for name in names
        ]
        rows.append((str(key).removeprefix("settings."), *cells))
    if not rows:
        return None
    return Table("Settings of the simulation", ("setting", *names), tuple(rows))


def warnings(tables: Tables) -> list[str]:
    """Return what makes results hard to compare: arms of different data or towers."""
    found = []
    # Checkpoints are other towers, and are meant to be.
    apart = ["simulation", "checkpoint", "checkpoints"]
    own = tables.provenance[~tables.provenance["artefact"].isin(apart)]
    for ending, plural in (("pairs_fingerprint", "sets of pairs"), ("towers", "pairs of towers")):
        last = own["key"].str.rsplit(".", n=1).str[-1]
        seen = own.loc[last == ending, "text"].dropna().nunique()
        if seen > 1:
            found.append(
                f"The results come from {seen} different {plural}: "
                "curves mix what cannot be compared. Run again without old results."
            )
    for start, end, what in (
        ("evaluation_sets.", ".images_fingerprint", "images of the evaluation set"),
        ("protocols.", ".fingerprint", "prompts of set and protocol"),
    ):
        same = own["key"].str.startswith(start) & own["key"].str.endswith(end)
        for key, group in own[same].groupby("key"):
            if group["text"].nunique() > 1:
                name = str(key).removeprefix(start).removesuffix(end)
                found.append(f"The {what} {name} were not the same for all arms.")
    return found


def holes(tables: Tables) -> list[str]:
    """Return which arms, measures and runs are missing where others are there."""
    found = []
    for name in ("purity", "zeroshot"):
        found += _missing_arms(tables, name)
    for name in ("purity", "zeroshot", "pruning"):
        table = getattr(tables, name)
        own = table[table["value"].isna()]
        where = ["metric", "evaluation_set"] if "evaluation_set" in own else ["metric", "tower"]
        for (metric, place), group in own.groupby(where):
            found.append(f"{metric} on {place}: {count(len(group), 'value')} not defined.")
    table = tables.simulation
    for metric, happened in (
        ("diverged_at_step", "diverged"),
        ("silenced_at_step", "was silenced"),
    ):
        lost = table[table["metric"] == metric]
        keys = ["condition", "trained_on", "spurious_probability"]
        for (condition, arm, probability), group in lost.groupby(keys):
            trials = ", ".join(f"{trial:g}" for trial in sorted(group["trial"]))
            steps = sorted(group["value"].dropna())
            when = " to ".join(dict.fromkeys(f"{step:g}" for step in steps[:1] + steps[-1:]))
            noun = "trial" if len(group) == 1 else "trials"
            found.append(
                f"Simulation, {condition}: training of {arm} {happened} at C_s {probability:g}, "
                f"{noun} {trials} (step {when})."
            )
    return found


def _missing_arms(tables: Tables, name: str) -> list[str]:
    """Name the arms of a table that have a pairing but no measurement, where their start has."""
    found = []
    tuned = getattr(tables, name).dropna(subset=["rate"])
    for start in sorted(tuned["start"].dropna().unique()):
        lost: dict[str, dict[float, None]] = {}
        for scheme in tables.schemes or [""]:
            own = tables.of_scheme(scheme)
            have = getattr(own, name)
            missing = set(own.pairs["rate"].dropna()) - set(
                have.loc[have["start"] == start, "rate"]
            )
            for rate in sorted(missing):
                of = f" of {scheme}" if rate and scheme not in tables.schemes[:1] else ""
                lost.setdefault(of, {})[rate] = None
        found += [
            f"{name}: no {start} arm{of} at C_m {', '.join(f'{rate:g}' for rate in rates)}."
            for of, rates in lost.items()
        ]
    return found
