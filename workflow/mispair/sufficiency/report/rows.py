"""Rows of the sufficiency study."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mispair.report.tables import Rows, of_metrics


def rows(results: Mapping[str, Sequence[Path]], models: Mapping[str, Any]) -> Rows:
    """Return the rows of all measurements."""
    return of_metrics("sufficiency", results.get("sufficiency", []))
