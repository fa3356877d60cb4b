"""Rows of the stepsize study: runs, curves, speedups and accelerations."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mispair.core.metrics import read_metrics
from mispair.report.tables import Rows, origins

TABLES = {
    "run": "stepsize_runs",
    "curve": "stepsize_curves",
    "speedup": "stepsize_speedups",
    "acceleration": "stepsize_acceleration",
}
"""The table of each kind of row."""


def rows(results: Mapping[str, Sequence[Path]], models: Mapping[str, Any]) -> Rows:
    """Return the rows of all parts of the study."""
    by_table: Rows = defaultdict(list)
    for path in results.get("stepsize", []):
        measured, provenance = read_metrics(path)
        condition = "/".join(str(measured[0][key]) for key in ("part", "data_set", "activation"))
        by_table["provenance"] += origins("stepsize", provenance, condition)
        for row in measured:
            by_table[TABLES[row["kind"]]].append(row)
    return by_table
