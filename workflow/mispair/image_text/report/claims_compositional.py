"""Claims on compositional sets: whether the choice of captions falls, and what restores it."""

from __future__ import annotations

from mispair.core.words import listing, number
from mispair.evaluation.report.compositional import BLIND, OF_CATEGORY, SELECTION
from mispair.evaluation.report.series import ends_text, sample, why_missing, zeroshot_series
from mispair.image_text.report import contrasts
from mispair.image_text.report.claims_shuffling import SHARE_OF_PUBLISHED
from mispair.image_text.report.claims_weights import SHARE_OF_COST
from mispair.image_text.report.contrasts import accuracy_contrasts, by_rate_text
from mispair.report import published, verdicts
from mispair.report.statistics import Effect
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Control, Outcome, Verdict
from mispair.towers.arms import PRETRAINED, WEIGHTED

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

SIZES_ABOVE_CHANCE = 3.0
"""Standard errors by which a category has to exceed chance, so that it can fall."""


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on all claims under the main scheme of corruption and protocol."""
    tables = tables.of_protocol().of_scheme()
    return [
        _falls(tables, confidence),
        _falls_more(tables, confidence),
        _restored(tables, confidence),
    ]


def _smallest() -> float:
    """Return a third of the published fall of accuracy, as nothing was published on such sets."""
    means = published.table4().groupby("shuffle_probability")["accuracy"].mean()
    return SHARE_OF_PUBLISHED * float(means.iloc[0] - means.iloc[-1])


def _missing(tables: Tables, claim: Claim) -> Verdict:
    reason = "no evaluation set for the choice of a caption was compared"
    return Verdict(claim, verdicts.UNMEASURED, why_missing(tables, PRETRAINED, reason))


def _largest(effects: dict[float, Effect]) -> tuple[float, Effect] | None:
    rate = max(effects, default=0.0)
    return (rate, effects[rate]) if rate > 0 else None


def _falls(tables: Tables, confidence: float) -> Verdict:
    effects = accuracy_contrasts(tables, PRETRAINED, confidence, metric=contrasts.SELECTION)
    found = _largest(effects)
    if found is None:
        return _missing(tables, FALLS)
    rate, effect = found
    series = zeroshot_series(tables, PRETRAINED, SELECTION)
    outcome, reason = verdicts.decide_effect(effect, -1, _smallest(), 1 - confidence)
    control = categories_above_chance(tables)
    if outcome != verdicts.UNMEASURED and control.finding == "limits" and control.text == NONE:
        outcome, reason = verdicts.UNDECIDED, "the model chooses no better than chance at C_m 0"
    return Verdict(
        FALLS,
        outcome,
        reason,
        scope="mean of the sets in which the true caption is chosen, from pre-trained projections",
        measured=f"right choices {ends_text(series)}; against C_m 0: {by_rate_text(effects)}",
        published="no number",
        sample=sample(series),
        test=f"C_m {rate:g} − 0 {verdicts.effect_text(effect, confidence)}",
        controls=(control, words_alone(tables)),
        effect=effect,
        smallest=_smallest(),
    )


def _falls_more(tables: Tables, confidence: float) -> Verdict:
    effects = accuracy_contrasts(tables, PRETRAINED, confidence, metric=contrasts.BEYOND_ACCURACY)
    found = _largest(effects)
    if found is None:
        return _missing(tables, FALLS_MORE)
    rate, effect = found
    outcome, reason = verdicts.decide_effect(effect, -1, _smallest(), 1 - confidence)
    return Verdict(
        FALLS_MORE,
        outcome,
        reason,
        scope="change of right choices − change of accuracy, each as a share of the way from "
        "chance to 1, means of their sets, from pre-trained projections",
        measured=f"against C_m 0: {by_rate_text(effects)}",
        published="no number",
        sample=effect.replicates,
        test=f"C_m {rate:g} − 0 {verdicts.effect_text(effect, confidence)}",
        controls=(categories_above_chance(tables),),
        effect=effect,
        smallest=_smallest(),
    )


def _restored(tables: Tables, confidence: float) -> Verdict:
    gains = accuracy_contrasts(
        tables, WEIGHTED, confidence,
        reference=contrasts.SAME_CAPTIONS, metric=contrasts.SELECTION,
    )  # fmt: skip
    found = _largest(gains)
    if found is None:
        reason = "no pairs were weighed (finetune_projection.weights is none)"
        return Verdict(RESTORED, verdicts.UNMEASURED, reason)
    rate, effect = found
    costs = accuracy_contrasts(tables, PRETRAINED, confidence, metric=contrasts.SELECTION)
    cost, alpha = costs.get(rate), 1 - confidence
    smallest = _smallest()
    if cost is None or not (cost.p <= alpha and cost.value < 0):
        outcome: Outcome = verdicts.UNDECIDED
        reason = "without weights, shuffled captions cost nothing that could be given back"
    else:
        smallest = -SHARE_OF_COST * cost.value
        outcome, reason = verdicts.decide_effect(effect, +1, smallest, alpha)
        reason += f" (a third of what shuffled captions cost, {number(-cost.value)})"
    return Verdict(
        RESTORED,
        outcome,
        reason,
        scope="mean of the sets in which the true caption is chosen, from pre-trained projections",
        measured=f"weighted − not weighted: {by_rate_text(gains)}",
        published="no number",
        sample=effect.replicates,
        test=f"C_m {rate:g} {verdicts.effect_text(effect, confidence)}",
        effect=effect,
        smallest=smallest,
    )


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
