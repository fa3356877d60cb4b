"""Compare every arm with the untouched projections and with fine-tuning at rate 0, in pairs.

Arms are also compared with those of other schemes at the same rate, and arms of weighted pairs with
the same fine-tuning without weights.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from mispair.core import settings

if TYPE_CHECKING:
    from mispair.evaluation.arm_comparison import ArmAnswers

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    """`compare_arms` has no settings: every arm is compared with its references."""


def run(settings: Settings, *, zeroshot_answers: list[Path], comparison: Path) -> None:
    """Write differences in accuracy with intervals for every arm, set, protocol and reference."""
    from mispair.core import files, metrics
    from mispair.core.progress import Progress
    from mispair.evaluation.arm_comparison import arm_of, references

    arms = [arm_of(path, *files.read_tensors(path)) for path in zeroshot_answers]
    for arm in arms[1:]:
        _refuse_other_questions(arms[0], arm)
    untouched = [arm for arm in arms if arm.start == "untouched"]
    if len(untouched) != 1:
        raise files.UserError(
            f"compare_arms: {len(untouched)} of the {len(arms)} files of answers are of the "
            "untouched projections; give exactly one."
        )
    rows: list[metrics.Row] = []
    with Progress("comparing", len(arms), "arms") as progress:
        progress.reach(0)
        for arm, compared in references(arms, untouched[0]):
            for name, reference in compared.items():
                keys = {**arm.keys, "reference": name}
                rows += [{**keys, **row} for row in arm.rows(reference)]
            progress.advance()
    log.info("%d arms, %d differences", len(arms), len(rows))
    origins = {"fingerprints": arms[0].fingerprints, "settings": settings.model_dump()}
    metrics.write_metrics(comparison, rows, origins)


def _refuse_other_questions(one: ArmAnswers, reference: ArmAnswers) -> None:
    from mispair.core.files import UserError

    ours, base = one.fingerprints, reference.fingerprints
    differing = [key for key in ours | base if ours.get(key) != base.get(key)]
    if differing:
        raise UserError(
            f"compare_arms: {one.path} and {reference.path} do not answer for the same images and "
            f"prompts ({', '.join(differing)}), so they cannot be compared in pairs. Evaluate "
            "both arms again."
        )
