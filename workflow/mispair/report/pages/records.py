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
        values = {str(value) for step in steps for value in step[key] if value is not None}
        return ", ".join(sorted(values)) or "none"

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
    of_fingerprints = table[
        last.str.contains("fingerprint") | last.isin(["towers", "model_fingerprint"])
    ]
    if of_fingerprints.empty:
        return None
    named = of_fingerprints.assign(what=of_fingerprints["key"].str.removeprefix("projection."))
    rows = [
        (str(what), str(text), ", ".join(sorted(group["artefact"].dropna().unique())))
        for (what, text), group in named.groupby(["what", "text"])
    ]
    return Table("Fingerprints", ("of", "fingerprint", "found in"), tuple(rows))
