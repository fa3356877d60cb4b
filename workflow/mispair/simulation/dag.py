"""Files of results of the study, from which the report is made."""

from __future__ import annotations

from typing import Any


def results(dag: Any) -> list[str]:
    """Return all files of results of a `mispair.dag.Dag`; none if the study does not run."""
    paths: list[str] = dag.simulations()
    return paths
