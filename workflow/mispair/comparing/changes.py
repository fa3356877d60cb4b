"""In what two runs differ besides their numbers: one table each for what they were made from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from mispair.comparing.runs import Run
from mispair.core.words import count, duration
from mispair.report.table import Table

NOTHING = "–"
DIGITS = 12
"""Of a digest, as many as tell files apart."""


def changes(a: Run, b: Run) -> list[Table]:
    """Return what each run is, and in what they differ; a table without rows says: in nothing."""
    return [
        Table("The two runs", ("", "A", "B"), tuple(_beside(_about(a), _about(b), every=True))),
        Table("Configuration", ("key", "A", "B"), _differing(_flat(a.config), _flat(b.config))),
        Table("Data", ("file or fingerprint", "A", "B"), _differing(_data(a), _data(b))),
        Table("Code", ("step", "A", "B"), _differing(_code(a), _code(b))),
        Table("Versions", ("of", "A", "B"), _differing(_versions(a), _versions(b))),
        Table(
            "Files of results",
            ("folder", "the same bytes", "other bytes", "in A only", "in B only"),
            tuple(_results(a.record["results"], b.record["results"])),
        ),
    ]


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    return tuple(_beside(one, other, every=False))


def _beside(
    one: Mapping[str, str], other: Mapping[str, str], *, every: bool
) -> Iterable[tuple[str, ...]]:
    for key in dict.fromkeys([*one, *other]):
        left, right = one.get(key, NOTHING), other.get(key, NOTHING)
        if every or left != right:
            yield key, left, right


def _about(run: Run) -> dict[str, str]:
    record, steps = run.record, run.record["steps"].values()
    git = record["git"]
    state = "with changes" if git.get("difference") else "as committed"
    commit = git.get("commit")
    return {
        "run": run.name,
        "commit": f"{commit[:DIGITS]}, {state}" if commit else "no checkout",
        "devices": _listed(value for step in steps for value in step["devices"]),
        "system": f"{record['platform']['system']}, {record['platform']['cores']} cores",
        "seeds": _listed(value for step in steps for value in step["seeds"]),
        "jobs": count(sum(step["jobs"] for step in steps), "job"),
        "time": duration(sum(step["wall_seconds"] for step in steps)),
    }


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(sorted({str(value) for value in values if value is not None})) or NOTHING


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


def _results(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    """Count files by their folder below ``results``."""
    counts: dict[str, Counter[str]] = {}
    for name in sorted(one.keys() | other.keys()):
        if name in one and name in other:
            kind = "same" if one[name] == other[name] else "other"
        else:
            kind = "a" if name in one else "b"
        counts.setdefault("/".join(PurePosixPath(name).parts[:2]), Counter())[kind] += 1
    for folder, kinds in counts.items():
        yield folder, *(f"{kinds[kind]:,}" for kind in ("same", "other", "a", "b"))
