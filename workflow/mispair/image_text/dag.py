"""Results of the study that the report reads."""

from __future__ import annotations

from typing import Any

from mispair.evaluation import paths as evaluation
from mispair.image_text.paths import COMPARED_TOWERS, COMPARISON
from mispair.pairs import paths as pairs
from mispair.towers import paths as towers


def results(dag: Any) -> list[str]:
    """Return all files of results of a `mispair.dag.Dag`; none if the study does not run."""
    if not dag.runs("image_text"):
        return []
    measured = (
        evaluation.PURITY, evaluation.ZEROSHOT, evaluation.PROBE, evaluation.PRUNING,
        evaluation.SEMANTICS,
    )  # fmt: skip
    compared = [COMPARISON, *([COMPARED_TOWERS] if dag.models.replicates else [])]
    described = (
        pairs.STATISTICS, pairs.PAIRING, pairs.INDEX, pairs.REJECTED, pairs.EXCLUDED,
        towers.IMAGE_RECORD, towers.TEXT_RECORD,
    )  # fmt: skip
    return [
        *(path for template in measured for path in dag.measured(template)),
        *(path for template in compared for path in dag.every(template)),
        *(path for template in described for path in dag.every(template)),
    ]
