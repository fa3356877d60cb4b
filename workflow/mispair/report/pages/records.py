"""Tables of the page of the run: run times, record, versions, fingerprints."""

from collections.abc import Mapping
from importlib import metadata
from typing import Any

import pandas as pd

from mispair.core import provenance
from mispair.core.cost import MIB, rows_by_step
from mispair.core.words import count, duration
from mispair.report.table import Cell, Number, Table, or_dash, whole
from mispair.report.tables import Tables
from mispair.report.tables import records as rows_of

DRAWING = ("snakemake", "altair", "vl-convert-python")
"""Packages that only the report depends on."""


def run_times(benchmarks: Mapping[str, str]) -> Table | None:
    """Sum benchmark files (`mispair.core.cost.texts_of`) by step."""
    rows = [{"step": step, **row} for step, row in rows_by_step(benchmarks)]
    table = pd.DataFrame(rows, columns=["step", "s", "max_rss"]).dropna(subset=["s"])
    if table.empty:
        return None
    grouped = table.groupby("step").agg(
        jobs=("s", "size"), total=("s", "sum"), longest=("s", "max"), rss=("max_rss", "max")
    )
    every = grouped["total"].sum()
    ordered = grouped.reset_index().sort_values(
        ["total", "step"], ascending=[False, True], kind="stable"
    )
    cells: list[tuple[Cell, ...]] = [
        (
            row["step"], whole(row["jobs"]), Number(row["total"], duration),
            Number(row["total"] / max(every, 1e-9), ".1%"), Number(row["longest"], duration),
            or_dash(row["rss"] * MIB / 1e6, ",.0f", unit="MB"),
        )
        for row in rows_of(ordered)
    ]  # fmt: skip
    cells.append(("all steps", whole(len(table)), Number(every, duration), Number(1, ".0%"),
                  Number(table["s"].max(), duration), ""))  # fmt: skip
    return Table(
        "Run time of the steps",
        ("step", "jobs", "sum", "share", "longest job", "most memory"),
        tuple(cells),
        "Sums over jobs of Snakemake, those of the report included, each as it last ran. A job may "
        "run several steps; jobs that run side by side count in full, and so does the memory of "
        "libraries that they share.",
    )


def origin(record: Mapping[str, Any]) -> Table:
    """Return a summary of the record of the run (`mispair.core.run_record`)."""
    git, steps = record["git"], record["steps"].values()
    jobs, wall, core = (
        sum(step[key] for step in steps) for key in ("jobs", "wall_seconds", "core_seconds")
    )

    def all_of(key: str, start: str = "") -> str:
        """List all values that the steps have under a key, of those with a start the rest."""
        values = {str(value) for step in steps for value in step[key] if value is not None}
        found = {value.removeprefix(start) for value in values if value.startswith(start)}
        return ", ".join(sorted(found)) or "none"

    state = "with changes" if git.get("difference") else "as committed"
    rows = (
        ("mispair", record["mispair"]),
        ("commit", f"{git['commit']}, {state}" if git.get("commit") else "none: no checkout"),
        ("commits of the results", all_of("commits")),
        ("devices", all_of("devices")),
        ("system", f"{record['platform']['system']}, {record['platform']['cores']} cores"),
        ("results", f"{count(len(record['results']), 'file')} of {count(jobs, 'run')} of steps"),
        ("results without a record", whole(len(record["unrecorded"]))),
        ("setting seed, from which a step draws", all_of("seeds", "seed ")),
        ("setting seeds, the replicates of an arm", all_of("seeds", "seeds ")),
        ("time of all jobs", duration(wall)),
        ("processor time", duration(core)),
    )
    return Table(
        "Provenance of this run", ("what", "which"), rows,
        "Runs of steps: some share a job, and those of the report are not counted, so jobs have "
        "another number. "
        "Time of all jobs: jobs that run side by side count in full, so the run took less. "
        "Processor time: how long cores worked for them; n idle cores need at least an nth of it.",
    )  # fmt: skip


def versions() -> Table:
    """Return the versions of the software that the results and the page depend on."""
    of_page = {name: metadata.version(name) for name in DRAWING}
    rows = tuple({**provenance.versions(), **of_page}.items())
    return Table("Versions", ("software", "version"), rows)


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
