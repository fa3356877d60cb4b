"""From results to rows of the report's tables: what all studies share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mispair.core.metrics import read_metrics
from mispair.report.tables import Row

Rows = defaultdict[str, list[Row]]
"""Rows by the table that they belong to."""


def of_metrics(table: str, paths: Iterable[Path]) -> Rows:
    """Return the rows of metrics files as those of one table, and their provenance."""
    by_table: Rows = defaultdict(list)
    for path in paths:
        rows, provenance = read_metrics(path)
        by_table["provenance"] += origins(table, provenance)
        by_table[table] += rows
    return by_table


def arm(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``start``, ``scheme`` and ``rate`` of the projections that were measured."""
    origin = provenance.get("projection") or provenance
    rate = origin.get("rate")
    return {
        "start": origin.get("start"),
        "scheme": origin.get("scheme"),
        "rate": None if rate in (None, "") else float(rate),
    }


def origins(
    artefact: str, provenance: Mapping[str, Any], condition: str | None = None
) -> list[dict[str, Any]]:
    """Flatten a provenance to rows of key and text; nested keys are joined with dots.

    Lists of classes and templates are left out, because their fingerprints identify them.
    """
    measured = {"artefact": artefact, "condition": condition, **arm(provenance)}
    return [{**measured, "key": key, "text": text} for key, text in _flat(provenance)]


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in content.items():
        if key in ("classnames", "templates"):
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", "" if value is None else str(value)
