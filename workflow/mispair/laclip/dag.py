"""The results of the study that the report is made of."""

from typing import Any

from mispair.core.paths import every
from mispair.laclip.paths import PURITY, ZEROSHOT
from mispair.towers.arms import UNTOUCHED


def results(dag: Any) -> list[str]:
    """Return all files of results; none if the study does not run.

    Parameters
    ----------
    dag : mispair.dag.Dag
        The checked configuration.
    """
    arms = {"towers": dag.models.compared, "arm": [UNTOUCHED]}
    return [*every(ZEROSHOT, arms), *every(PURITY, arms), *dag.models.origins()]
