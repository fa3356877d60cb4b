"""Rows of the audit."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mispair.core.files import read_json
from mispair.core.metrics import read_metrics
from mispair.report.tables import Rows, origins

TABLES = {
    "audit": "audit",
    "selection": "audit",
    "calibration": "audit_calibration",
    "review": "audit",
    "similar": "audit",
}
"""Table of each kind of results."""


def rows(results: Mapping[str, Sequence[Path]], models: Mapping[str, Any]) -> Rows:
    """Return the rates of the corpus, and what was found where wrong captions are known."""
    by_table: Rows = defaultdict(list)
    for kind, table in TABLES.items():
        for path in results.get(kind, []):
            measured, provenance = read_metrics(path)
            by_table["provenance"] += origins(kind, provenance)
            by_table[table] += measured
    for path in results.get("sample", []):
        by_table["audit"].append({"metric": "checked_sample", "value": read_json(path)["size"]})
    return by_table
