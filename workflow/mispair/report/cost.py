"""How much work the steps of this package have: see `mispair.core.cost`."""

from typing import Any

from mispair.core.cost import Sizes, Work
from mispair.report import studies

OF_PAIRS = ("index", "pairing")
"""Kinds of results with a row for each pair."""


def gather_metrics(settings: Any, job: Any, sizes: Sizes) -> Work:
    of_pairs = [path for path in job.results if studies.of_result(str(path))[1] in OF_PAIRS]
    return Work({"files": len(job.results), "pairs": sizes.total(of_pairs)})


def draw_figures(settings: Any, job: Any, sizes: Sizes) -> Work:
    # Figures that have nothing to show are drawn quickly, so tables count as much as pictures.
    return Work({"tables": len(job.tables)})
