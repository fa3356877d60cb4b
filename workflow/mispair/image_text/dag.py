"""Results of the study that the report reads."""

from __future__ import annotations

from typing import Any


def results(dag: Any) -> list[str]:
    """Return all files of results of a `mispair.dag.Dag`; none if the study does not run."""
    kinds = ("purity", "zeroshot", "probe", "pruning", "semantics", "basis")
    return [
        *(path for kind in kinds for path in dag.measured(kind)),
        *dag.compared(), *dag.compared_towers(), *dag.exported(),
        *dag.gathered("statistics.json"), *dag.pairings(),
        *dag.index(), *dag.index("rejected.parquet"), *dag.gathered("excluded.parquet"),
        *dag.records(),
    ]  # fmt: skip
