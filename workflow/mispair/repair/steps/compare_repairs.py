"""Compare the arms of the repair with one another, image by image and seed by seed."""

from __future__ import annotations

import logging
from pathlib import Path

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    """`compare_repairs` has no settings: every arm is compared with its references."""


def run(settings: Settings, *, answers: list[Path], comparison: Path) -> None:
    """Write differences in accuracy with intervals, by set, and over all sets of a protocol.

    `answers` are those of the arms, as evaluate_zeroshot writes them. The rows of `comparison` have
    ``rule``, ``reference``, ``scheme`` and ``rate``.
    """
    from mispair.core import files, metrics
    from mispair.evaluation.arm_comparison import arm_of
    from mispair.repair.arm_differences import comparisons

    arms = [arm_of(path, *files.read_tensors(path)) for path in answers]
    rows = [*comparisons(arms)]
    metrics.write_metrics(comparison, rows, {"answers": [str(path) for path in answers]})
    log.info("%d differences between %d arms", len(rows), len(arms))
