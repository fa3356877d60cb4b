"""The differences in accuracy between the arms of the repair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mispair.evaluation.arm_comparison import OF_ALL_SETS, OF_ONE_SET, ArmAnswers
from mispair.repair.rules import RULES
from mispair.towers.arms import REPAIR


def comparisons(arms: Sequence[ArmAnswers]) -> Iterator[dict[str, Any]]:
    """Yield the differences in accuracy of each arm from its references at the same corruption.

    Rows are those of `Arm.rows` on sets of classes, and have ``rule`` and ``reference``, too.
    """
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
