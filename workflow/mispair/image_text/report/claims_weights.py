"""The claim on weights: accuracy regained by weighing pairs by how likely they are right."""

from __future__ import annotations

import math

from mispair.core.words import number
from mispair.evaluation.arm_comparison import OF_ALL_SETS
from mispair.evaluation.report.protocols import protocol_phrase
from mispair.image_text.report.contrasts import SAME_CAPTIONS, accuracy_contrasts, by_rate_text
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
    scope = (
        "mean of the evaluation sets, from pre-trained projections, captions "
        f"{tables.schemes[0] if tables.schemes else ''}; {protocol_phrase(tables)}"
    )
    return [given_back(tables, WEIGHTS, scope, OF_ALL_SETS, confidence)]


def given_back(
    tables: Tables, claim: Claim, scope: str, metric: str, confidence: float,
    smallest: float = math.nan,
) -> Verdict:  # fmt: skip
    """Judge whether weights give back what wrong captions cost, at the largest C_m.

    The tables are of one scheme and protocol; `metric` is one of `accuracy_contrasts`, and
    `smallest` the smallest effect of interest where nothing is lost.
    """
    gains = accuracy_contrasts(tables, WEIGHTED, confidence, reference=SAME_CAPTIONS, metric=metric)
    rate = max(gains, default=0.0)
    if not rate > 0:
        reason = "no pairs were weighed (finetune_projection.weights is none)"
        return Verdict(claim, verdicts.UNMEASURED, reason)
    effect, alpha = gains[rate], 1 - confidence
    cost = accuracy_contrasts(tables, PRETRAINED, confidence, metric=metric).get(rate)
    outcome: Outcome = verdicts.UNDECIDED
    reason = "without weights, wrong captions cost nothing that could be given back"
    if cost is not None and cost.p <= alpha and cost.value < 0:
        smallest = -SHARE_OF_COST * cost.value
        outcome, reason = verdicts.decide_effect(effect, +1, smallest, alpha)
        reason += f" (a third of what wrong captions cost, {number(-cost.value)})"
    return Verdict(
        claim, outcome, reason, scope,
        measured=f"weighted − not weighted: {by_rate_text(gains)}",
        published="no number",
        sample=effect.replicates,
        test=f"C_m {rate:g} {verdicts.effect_text(effect, confidence)}",
        effect=effect, smallest=smallest,
    )  # fmt: skip
