"""Rows of towers that were trained from scratch on wrong captions."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mispair.core.metrics import read_metrics
from mispair.report.tables import Rows, arm, origins


def rows(results: Mapping[str, Sequence[Path]], models: Mapping[str, Any]) -> Rows:
    """Return the rows of all trainings."""
    by_table: Rows = defaultdict(list)
    for path in results.get("pretraining", []):
        measured, provenance = read_metrics(path)
        trained = provenance.get("trained")
        training = "{scheme}~{rate}/draw~{draw}".format_map(trained) if trained else None
        by_table["provenance"] += origins("pretraining", provenance, training)
        by_table["pretraining"] += [{**arm(provenance), **row} for row in measured]
    return by_table
