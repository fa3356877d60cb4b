"""Compare the arms of the repair with one another, image by image and seed by seed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mispair.core import settings
from mispair.repair.rules import RULES
from mispair.towers.arms import REPAIR

if TYPE_CHECKING:
    from mispair.evaluation.arm_comparison import ArmAnswers

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

    arms = [arm_of(path, *files.read_tensors(path)) for path in answers]
    rows = [*comparisons(arms)]
    metrics.write_metrics(comparison, rows, {"answers": [str(path) for path in answers]})
    log.info("%d differences between %d arms", len(rows), len(arms))


def comparisons(arms: Sequence[ArmAnswers]) -> Iterator[dict[str, Any]]:
    """Yield the differences in accuracy of each arm from its references at the same corruption.

    Rows are those of `Arm.rows` on sets of classes, and have ``rule`` and ``reference``, too.
    """
    from mispair.evaluation.arm_comparison import OF_ALL_SETS, OF_ONE_SET

    by_rule = {
        (str(arm.start).removeprefix(REPAIR), arm.keys["scheme"], arm.keys["rate"]): arm
        for arm in arms
    }
    for (rule, scheme, rate), arm in by_rule.items():
        for name in RULES[rule].references:
            reference = by_rule.get((name, scheme, rate))
            if reference is not None:
                keys = {"rule": rule, "reference": name, "scheme": scheme, "rate": rate}
                for row in arm.rows(reference):
                    if row["metric"] in (OF_ONE_SET, OF_ALL_SETS):
                        yield {**keys, "metric": row["metric"], **row}
