"""The claim on weights: what it buys back to weigh pairs by how likely their captions are right."""

from __future__ import annotations

import math

from mispair.core.words import number
from mispair.evaluation.report.protocols import protocol_phrase
from mispair.image_text.report.contrasts import (
    SAME_CAPTIONS,
    accuracy_contrasts,
    by_rate_text,
)
from mispair.report import verdicts
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Outcome, Verdict
from mispair.towers.arms import PRETRAINED, WEIGHTED

WEIGHTS = Claim(
    "weights-help", "image_text",
    "Weighing each pair by the probability that its caption is right gives back accuracy that "
    "wrong captions cost.",
    "not in the paper", "weights", "accuracy_by_shuffling",
)  # fmt: skip

SHARE_OF_COST = 1 / 3
"""The smallest effect of interest, as a share of what wrong captions cost without weights."""


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdict on the claim."""
    tables = tables.of_protocol().of_scheme()
    effects = accuracy_contrasts(tables, WEIGHTED, confidence, reference=SAME_CAPTIONS)
    wrong = {rate: effect for rate, effect in effects.items() if rate > 0}
    if not wrong:
        reason = "no pairs were weighed (finetune_projection.weights is none)"
        return [Verdict(WEIGHTS, verdicts.UNMEASURED, reason)]
    rate = max(wrong)
    effect = wrong[rate]
    cost = accuracy_contrasts(tables, PRETRAINED, confidence).get(rate)
    alpha, smallest = 1 - confidence, math.nan
    if cost is None or not (cost.p <= alpha and cost.value < 0):
        outcome: Outcome = verdicts.UNDECIDED
        reason = "without weights, wrong captions cost no accuracy that could be given back"
    else:
        smallest = -SHARE_OF_COST * cost.value
        outcome, reason = verdicts.decide_effect(effect, +1, smallest, alpha)
        reason += f" (a third of what wrong captions cost, {number(-cost.value)})"
    return [
        Verdict(
            WEIGHTS,
            outcome,
            reason,
            scope="mean of the evaluation sets, from pre-trained projections, captions "
            f"{tables.schemes[0] if tables.schemes else ''}; {protocol_phrase(tables)}",
            measured=f"weighted − not weighted: {by_rate_text(effects)}",
            published="no number",
            sample=effect.replicates,
            test=f"C_m {rate:g} {verdicts.effect_text(effect, confidence)}",
            effect=effect,
            smallest=smallest,
        )
    ]
