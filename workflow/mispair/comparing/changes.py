"""Differences between two runs, except numbers: configuration, data, code, versions, verdicts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

import pandas as pd

from mispair.comparing.rerun import OTHER_BYTES
from mispair.comparing.runs import Run
from mispair.core import run_record
from mispair.report.pages.records import origin
from mispair.report.table import Cell, Table, effect_cell, whole
from mispair.report.tables import records

DIGITS = 12
"""Digits of a digest that are printed."""


def changes(a: Run, b: Run) -> list[Table]:
    """Return tables of both runs and their differences; one without rows means no difference."""
    return [
        Table("The two runs", ("", "A", "B"), _side_by_side(_origin(a), _origin(b), every=True)),
        Table("Configuration", ("key", "A", "B"), _side_by_side(_flat(a.config), _flat(b.config))),
        Table("Data", ("file or fingerprint", "A", "B"), _side_by_side(_data(a), _data(b))),
        Table("Code", ("step", "A", "B"), _side_by_side(_code(a), _code(b))),
        Table("Versions", ("of", "A", "B"), _side_by_side(_versions(a), _versions(b))),
        _devices(a, b),
        Table(
            "Files of results",
            ("folder", "the same bytes", "other bytes", "in A only", "in B only"),
            tuple(_results(a.record["results"], b.record["results"])),
        ),
        Table(
            "Verdicts that differ",
            ("claim", "preset", "A", "effect in A", "B", "effect in B"),
            tuple(_verdicts(a.claims, b.claims)),
        ),
    ]


def _side_by_side(
    a: Mapping[str, Cell], b: Mapping[str, Cell], *, every: bool = False
) -> tuple[tuple[Cell, ...], ...]:
    """Return a row for every key, or for those with different values."""
    keys = (key for key in dict.fromkeys([*a, *b]) if every or a.get(key) != b.get(key))
    return tuple((key, a.get(key), b.get(key)) for key in keys)


def _origin(run: Run) -> dict[str, Cell]:
    """Return the short provenance of a run."""
    return {"run": run.name, **{str(name): cell for name, cell in origin(run.record).rows}}


def _flat(config: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Return every key of a configuration, such as ``simulate.trials``, with its value."""
    values: dict[str, str] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            values |= _flat(value, f"{before}{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            values[f"{before}{key}"] = text
    return values


def _data(run: Run) -> dict[str, str]:
    names: dict[str, list[str]] = {}
    for what, text in run.record.get("fingerprints", []):
        names.setdefault(f"fingerprint: {what}", []).append(text)
    prints = {what: ", ".join(sorted(texts)) for what, texts in names.items()}
    return prints | {name: _facts(facts) for name, facts in run.record["data"].items()}


def _facts(facts: Mapping[str, Any]) -> str:
    digest = facts.get("sha256") or facts.get("sha256_of_samples", "")
    return f"{facts['bytes']:,} bytes, {digest[:DIGITS]}"


def _code(run: Run) -> dict[str, str]:
    return {name: ", ".join(step["code"]) for name, step in run.record["steps"].items()}


def _versions(run: Run) -> dict[str, str]:
    return {"mispair": run.record["mispair"], **run.record["versions"]}


def _devices(a: Run, b: Run) -> Table:
    """Name a difference of the types of CPU and GPU, with what it means for bytes."""
    names = (", ".join(sorted(run_record.devices(run.record))) or None for run in (a, b))
    rows = _side_by_side(*({"type of CPU or GPU": text} for text in names))
    remark = f"{OTHER_BYTES[0].upper()}{OTHER_BYTES[1:]}." if rows else ""
    return Table("Devices", ("", "A", "B"), rows, remark)


def _results(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterable[tuple[Cell, ...]]:
    """Count files by their folder below ``results``."""
    counts: dict[str, Counter[str]] = {}
    for name in sorted(a.keys() | b.keys()):
        if name in a and name in b:
            kind = "same" if a[name] == b[name] else "other"
        else:
            kind = "a" if name in a else "b"
        counts.setdefault("/".join(PurePosixPath(name).parts[:2]), Counter())[kind] += 1
    for folder, kinds in counts.items():
        yield folder, *(whole(kinds[kind]) for kind in ("same", "other", "a", "b"))


def _verdicts(a: pd.DataFrame, b: pd.DataFrame) -> Iterable[tuple[Cell, ...]]:
    """List the claims whose outcomes or marks differ, including claims of one run alone."""
    both = a.merge(b, "outer", ["claim", "preset"], suffixes=("_a", "_b"), sort=False)
    unmarked = both[["near_a", "near_b"]].isna().any(axis=1)  # an earlier version, or one run
    for run in "ab":
        marked = (both[f"near_{run}"] == "True") & ~unmarked
        both[f"outcome_{run}"] += marked.map({True: " (near the line)", False: ""})
    texts = both[["preset", "outcome_a", "outcome_b"]].fillna("")
    changed = both.assign(**texts)[texts["outcome_a"] != texts["outcome_b"]]
    for row in records(changed):
        yield (
            row["claim"], row["preset"] or None,
            row["outcome_a"] or None, effect_cell(row["effect_a"], row["low_a"], row["high_a"]),
            row["outcome_b"] or None, effect_cell(row["effect_b"], row["low_b"], row["high_b"]),
        )  # fmt: skip
