"""Claims that the paper does not make: on weights of pairs, and on compositional sets.

They are whether weights give back what wrong captions cost, and whether the choice of captions
falls.
"""

from __future__ import annotations

import math

from mispair.core.words import listing, number
from mispair.evaluation.arm_comparison import BEYOND_ACCURACY, OF_ALL_SETS, SELECTION_OF_ALL_SETS
from mispair.evaluation.report.protocols import protocol_phrase
from mispair.evaluation.report.series import ends_text, sample, why_missing, zeroshot_series
from mispair.evaluation.selection import BLIND, OF_CATEGORY, SELECTION
from mispair.image_text.report.claims_shuffling import SHARE_OF_PUBLISHED
from mispair.image_text.report.contrasts import SAME_CAPTIONS, accuracy_contrasts, by_rate_text
from mispair.report import published, verdicts
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Control, Outcome, Verdict
from mispair.towers.arms import PRETRAINED, WEIGHTED

WEIGHTS = Claim(
    "weights-help", "image_text",
    "Weighing each pair by the probability that its caption is right gives back accuracy that "
    "wrong captions cost.",
    "not in the paper", "weights", "accuracy_by_shuffling",
)  # fmt: skip
FALLS = Claim(
    "composition-falls", "image_text",
    "The true one of two captions is chosen less often the more captions are shuffled.",
    "not in the paper", "composition", "compositional_by_shuffling",
)  # fmt: skip
FALLS_MORE = Claim(
    "composition-falls-more", "image_text",
    "The choice of the true caption falls more than zero-shot accuracy.",
    "not in the paper", "composition", "compositional_by_shuffling",
)  # fmt: skip
RESTORED = Claim(
    "composition-restored", "image_text",
    "Weighing each pair by the probability that its caption is right gives back what shuffled "
    "captions cost the choice of the true caption.",
    "not in the paper", "weights", "compositional_by_shuffling",
)  # fmt: skip

SHARE_OF_COST = 1 / 3
"""The smallest effect of interest, as a share of what wrong captions cost without weights."""

SIZES_ABOVE_CHANCE = 3.0
"""Standard errors by which a category has to exceed chance, so that it can fall."""

SCOPE = "mean of the sets in which the true caption is chosen, from pre-trained projections"


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on all claims under the main scheme of corruption and protocol."""
    tables = tables.of_protocol().of_scheme()
    of_accuracy = (
        "mean of the evaluation sets, from pre-trained projections, captions "
        f"{tables.schemes[0] if tables.schemes else ''}; {protocol_phrase(tables)}"
    )
    beyond = (
        "change of right choices − change of accuracy, each as a share of the way from chance to "
        "1, means of their sets, from pre-trained projections"
    )
    return [
        _given_back(tables, WEIGHTS, of_accuracy, OF_ALL_SETS, confidence, math.nan),
        _falls(tables, FALLS, SELECTION_OF_ALL_SETS, SCOPE, confidence),
        _falls(tables, FALLS_MORE, BEYOND_ACCURACY, beyond, confidence),
        _given_back(tables, RESTORED, SCOPE, SELECTION_OF_ALL_SETS, confidence, _smallest()),
    ]


def _smallest() -> float:
    """Return a third of the published fall of accuracy, as nothing was published on such sets."""
    means = published.table4().groupby("shuffle_probability")["accuracy"].mean()
    return SHARE_OF_PUBLISHED * float(means.iloc[0] - means.iloc[-1])


def _given_back(
    tables: Tables, claim: Claim, scope: str, metric: str, confidence: float, smallest: float
) -> Verdict:
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


def _falls(tables: Tables, claim: Claim, metric: str, scope: str, confidence: float) -> Verdict:
    effects = accuracy_contrasts(tables, PRETRAINED, confidence, metric=metric)
    rate = max(effects, default=0.0)
    if not rate > 0:
        reason = "no evaluation set for the choice of a caption was compared"
        return Verdict(claim, verdicts.UNMEASURED, why_missing(tables, PRETRAINED, reason))
    effect, smallest = effects[rate], _smallest()
    outcome, reason = verdicts.decide_effect(effect, -1, smallest, 1 - confidence)
    controls = [categories_above_chance(tables)]
    measured, replicates = f"against C_m 0: {by_rate_text(effects)}", effect.replicates
    if claim is FALLS:
        if outcome != verdicts.UNMEASURED and controls[0].text == NONE:
            outcome, reason = verdicts.UNDECIDED, "the model chooses no better than chance at C_m 0"
        series = zeroshot_series(tables, PRETRAINED, SELECTION)
        measured, replicates = f"right choices {ends_text(series)}; {measured}", sample(series)
        controls.append(words_alone(tables))
    return Verdict(
        claim, outcome, reason, scope, measured,
        published="no number",
        sample=replicates,
        test=f"C_m {rate:g} − 0 {verdicts.effect_text(effect, confidence)}",
        controls=tuple(controls), effect=effect, smallest=smallest,
    )  # fmt: skip


NONE = "No category is above chance at the lowest C_m, so none can fall."


def categories_above_chance(tables: Tables) -> Control:
    """Return which categories can fall: those that the model answers better than chance."""
    name = "Categories at chance"
    rows = tables.zeroshot_of(PRETRAINED, OF_CATEGORY).dropna(subset=["value", "chance"])
    rows = rows[rows["rate"] == rows["rate"].min()]
    if rows.empty:
        return Control(name, "not measured", "The questions of these sets have no categories.")
    means = rows.groupby(["evaluation_set", "classname"])[["value", "chance", "n"]].mean()
    error = (means["chance"] * (1 - means["chance"]) / means["n"]) ** 0.5
    can_fall = means["value"] - means["chance"] > SIZES_ABOVE_CHANCE * error
    if can_fall.all():
        return Control(name, "does not limit", "Every category is answered better than by chance.")
    if not can_fall.any():
        return Control(name, "limits", NONE)
    at_chance = [str(category) for _, category in means.index[~can_fall]]
    return Control(
        name,
        "limits",
        f"{listing(at_chance)}: the model answers no better than by chance at the lowest C_m, so "
        "these cannot fall, and make the mean fall less.",
    )


def words_alone(tables: Tables) -> Control:
    """Return whether words alone, without the image, tell the true caption."""
    name = "Words without the image"
    means, chance = {}, 0.0
    for metric in (SELECTION, BLIND):
        rows = tables.zeroshot_of(PRETRAINED, metric).dropna(subset=["value", "chance"])
        rows = rows[rows["rate"] == rows["rate"].min()]
        means[metric], chance = rows["value"].mean(), rows["chance"].mean()
    above, blind = means[SELECTION] - chance, means[BLIND] - chance
    if not above > 0:
        return Control(name, "not measured", "The choice of captions is no better than chance.")
    limits = blind >= SHARE_OF_PUBLISHED * above
    text = f"With the mean image in place of each image, {number(means[BLIND])} are right"
    return Control(
        name,
        "limits" if limits else "does not limit",
        f"{text}, with the image {number(means[SELECTION])}, by chance {number(chance)}.",
    )
