"""The results of the study that the report is made of."""

from __future__ import annotations

from typing import Any


def results(dag: Any) -> list[str]:
    """Return all files of results; none if the study does not run.

    Parameters
    ----------
    dag : mispair.dag.Dag
        The checked configuration.
    """
    paths: list[str] = dag.simulations()
    return paths
