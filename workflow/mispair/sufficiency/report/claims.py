"""The companion paper's claims on contrastive pre-training, judged on the tables."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd

from mispair.core.words import interval, number
from mispair.report import verdicts
from mispair.report.statistics import trend
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Control, Verdict
from mispair.sufficiency.report.runs import (
    ENCODERS,
    MAIN_FLIP,
    NOT_RUN,
    RUN,
    effect_over_runs,
    fit_by_prompts,
    main_flip,
    over_runs,
    published_risks,
    rows,
    sample,
    sizes,
    trained,
    worths,
)

STUDY = "sufficiency"
NEARLY = 0.1
"""What "approximately" is taken to mean: a tenth of what the control lacks, or of what there is."""

SUFFICIENT = Claim(
    "sufficient", STUDY,
    "Encoders that nearly minimise the contrastive loss are approximately sufficient (here: the "
    f"divergence is at most {NEARLY:g} of the untrained encoders').",
    "theorem on sufficiency", "level", "sufficiency_divergence",
)  # fmt: skip
CLASSES = Claim(
    "zero-shot-near", STUDY,
    "They classify zero-shot nearly as well as is possible (here: the excess risk is at most "
    f"{NEARLY:g} of the gap between Bayes and the untrained encoders).",
    "figure 2(b)", "level", "sufficiency_prompts",
)  # fmt: skip
PROMPTS = Claim(
    "prompts-help", STUDY,
    "The zero-shot risk falls with the number of prompts.",
    "figures 5 and 6", "trend", "sufficiency_prompts",
)  # fmt: skip
DENOISING = Claim(
    "denoising-transfers", STUDY,
    "The frozen feature serves conditional denoising: a head on it does better than the best "
    "predictor without the text.",
    "figure 2(c)", "difference of runs", "sufficiency_transfer",
)  # fmt: skip
NEXT_WORD = Claim(
    "next-word-transfers", STUDY,
    "The frozen feature serves next-word prediction: a head on it does better than the best "
    "predictor without the image.",
    "figure 2(d)", "difference of runs", "sufficiency_transfer",
)  # fmt: skip
GUIDED = Claim(
    "guided-closer", STUDY,
    "Transformers can do belief propagation: shown its messages, encoders come closer to Bayes "
    "than without, and shallow ones stay farther away.",
    "figure 2(a)", "difference of runs", "sufficiency_divergence",
)  # fmt: skip
PUBLISHED = Claim(
    "published-next-word", STUDY,
    "At the published size, the risk of the published next-word head on the frozen feature "
    "shows that it uses the image.",
    "figure 2(d)", "worth", "sufficiency_published",
)  # fmt: skip
"""There is no such claim on the published denoiser: its risk shows no use of the text, but a head
that underfits shows none with a perfect feature either. The table of worths describes it.
"""
CLAIMS = (SUFFICIENT, CLASSES, PROMPTS, DENOISING, NEXT_WORD, GUIDED, PUBLISHED)


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts, in the order of `CLAIMS`."""
    table = tables.sufficiency
    if table.empty:
        return [Verdict(claim, verdicts.UNMEASURED, NOT_RUN) for claim in CLAIMS]
    runs = trained(table, main_flip(table))
    scope = f"p = {main_flip(table):g}, trees {sizes(table)}"
    return [
        _sufficient(runs, scope, confidence),
        _classes(runs, scope, confidence),
        _prompts(runs, scope, 1 - confidence),
        _transfers(DENOISING, runs, "cdm", "the text", scope, confidence),
        _transfers(NEXT_WORD, runs, "vlm", "the image", scope, confidence),
        _guided(runs, scope, confidence),
        _published(table),
    ]


OF_INTEREST = 1 / 3
"""Smallest effect of interest, as a share of what the other modality is worth (the most that its
use can gain), or of the published difference between encoders."""


def _by_arm(gaps: pd.DataFrame, arm: str) -> pd.Series:
    """Return the values of an arm by run."""
    return gaps[gaps["arm"] == arm].set_index(RUN)["value"].astype(float)


def _nearly(
    claim: Claim, gaps: pd.DataFrame, counted: str, scope: str, confidence: float, *,
    noun: str, unit: str = "", absent: str, published: str, control: Callable[[float], Control],
) -> Verdict:  # fmt: skip
    """Judge whether the gap of standard encoders is a small share of that of untrained ones.

    The gaps are those with the most candidates or prompts, which the column `counted` has.
    """
    most = gaps[counted].max()
    gaps = gaps[gaps[counted] == most]
    standard, untrained = _by_arm(gaps, "standard"), _by_arm(gaps, "untrained")
    shares = (standard / untrained).dropna().rename("value").reset_index()
    if shares.empty:
        return Verdict(claim, verdicts.UNMEASURED, absent)
    share = over_runs(shares, confidence)
    outcome, reason = verdicts.decide_level(share, NEARLY, -1)
    limits = interval(share.low, share.high)
    return Verdict(
        claim, outcome, reason,
        scope=f"{scope}, {'K' if counted == 'candidates' else 'M'} = {most:g}",
        measured=f"{noun} {number(standard.mean())}{unit}, untrained "
        f"{number(untrained.mean())}: {number(share.value)} of it",
        published=published,
        sample=sample(gaps[gaps["arm"] == "standard"]),
        test=f"{100 * confidence:g} % interval {limits}" if share.known else limits,
        controls=(control(most),),
    )  # fmt: skip


def _sufficient(runs: pd.DataFrame, scope: str, confidence: float) -> Verdict:
    divergences = runs[(runs["metric"] == "sufficiency") & (runs["part"] == "both")]
    return _nearly(
        SUFFICIENT, divergences, "candidates", scope, confidence,
        noun="divergence", unit=" nats",
        absent="no encoders were measured",
        published="no number: only the excess risk at K = 4 is",
        control=lambda candidates: _information(runs),
    )  # fmt: skip


def _information(runs: pd.DataFrame) -> Control:
    name = "Root information of a random encoder"
    lost = dict(runs[runs["metric"] == "information_lost"].groupby("arm")["value"].mean())
    held = float(runs[runs["metric"] == "information"]["value"].mean())
    if not {"standard", "untrained"} <= lost.keys():
        return Control(name, "not measured", "The root was not read out of the features.")
    return Control(
        name,
        "does not limit",
        f"Of {number(held)} nats on the root trained features lose {number(lost['standard'])}, "
        f"random ones {number(lost['untrained'])}: a random map is nearly one to one, so "
        "this measure alone would show little.",
    )


def _classes(runs: pd.DataFrame, scope: str, confidence: float) -> Verdict:
    gaps = runs[(runs["task"] == "zsc") & (runs["reference"] == "bayes") & runs["shifted"].isna()]
    printed = published_risks("zsc", MAIN_FLIP)

    def prompts_alone(most: float) -> Control:
        exact = gaps[(gaps["arm"] == "exact") & (gaps["per_class"] == most)]["value"].mean()
        return Control(
            "Prompts alone", "does not limit",
            f"With the best similarity and the same {most:g} prompts the excess is "
            f"{number(exact)}: this part comes from the prompts.",
        )  # fmt: skip

    return _nearly(
        CLASSES, gaps, "per_class", scope, confidence,
        noun="excess",
        absent="nothing was classified",
        published=f"excess {number(printed['standard'] - printed['bayes'])} at M = 250 and the "
        "published size",
        control=prompts_alone,
    )  # fmt: skip


def _prompts(runs: pd.DataFrame, scope: str, alpha: float) -> Verdict:
    risks = runs[(runs["task"] == "zsc") & (runs["metric"] == "risk") & runs["shifted"].isna()]
    risks = risks[(risks["arm"] == "standard") & (risks["per_class"] >= 5)]
    blocks = [str(tuple(row)) for row in risks[RUN].itertuples(index=False)]
    trend_of_risks = trend([float(m) for m in risks["per_class"]], list(risks["value"]), blocks)
    outcome, reason = verdicts.decide_trend(trend_of_risks, -1, alpha)
    fits = [f"{curve}, residual {residual}" for curve, residual in fit_by_prompts(runs, "standard")]
    law = fits[0] if fits else "no fit"
    return Verdict(
        PROMPTS, outcome, reason, scope=f"{scope}, M from 5 on", measured=f"fit from M = 10: {law}",
        published="5.70 / M + 1.838 at p = 0.2 and the published size, residual 0.03",
        sample=sample(risks), test=verdicts.trend_text(trend_of_risks),
    )  # fmt: skip


def _transfers(
    claim: Claim, runs: pd.DataFrame, task: str, opposite: str, scope: str, confidence: float
) -> Verdict:
    def gap(arm: str, reference: str) -> pd.DataFrame:
        return rows(runs, task=task, arm=arm, metric="difference", reference=reference)

    digits = 3 if task == "cdm" else 4
    frozen = gap("frozen", "unconditional")
    effect = effect_over_runs(frozen, confidence)
    worth = float(gap("unconditional", "bayes")["value"].mean())
    if not (math.isfinite(effect.value) and worth > 0):
        return Verdict(claim, verdicts.UNMEASURED, "no head on the frozen feature was measured")
    smallest = OF_INTEREST * worth
    outcome, reason = verdicts.decide_effect(effect, -1, smallest, 1 - confidence)
    excess = gap("frozen", "bayes")["value"].mean()
    untrained = _untrained(
        gap("frozen", "untrained"), gap("untrained", "unconditional"), confidence
    )
    return Verdict(
        claim, outcome, reason, scope=scope,
        measured=f"excess {number(excess, digits)}; {opposite} is worth {number(worth, digits)}",
        published="see the published size below",
        sample=sample(frozen),
        test=f"frozen − unconditional {verdicts.effect_text(effect, confidence, digits)}",
        effect=effect, smallest=smallest, controls=(untrained,),
    )  # fmt: skip


def _untrained(gain: pd.DataFrame, alone: pd.DataFrame, confidence: float) -> Control:
    name = "The same with an untrained encoder"
    if gain.empty:
        return Control(name, "not measured", "No head on an untrained feature was trained.")
    value, untrained_effect = over_runs(gain, confidence), over_runs(alone, confidence)
    limited = value.known and value.high >= 0
    meaning = ""
    if limited and value.value < 0:
        meaning = ": it varies too much between these runs to be certain"
    elif limited:
        meaning = ": the gain does not come from training"
    return Control(
        name,
        "limits" if limited else "does not limit",
        f"Trained − untrained {verdicts.interval_text(value, confidence, 4)}{meaning}; the "
        "untrained encoder's head differs from the best predictor by "
        f"{verdicts.interval_text(untrained_effect, confidence, 4)}.",
    )


def _guided(runs: pd.DataFrame, scope: str, confidence: float) -> Verdict:
    excess = runs[(runs["metric"] == "sufficiency") & (runs["part"] == "both")]
    excess = excess[excess["candidates"] == excess["candidates"].min()]
    wide = excess.pivot_table(index=RUN, columns="arm", values="value")
    if not {"standard", "guided", "shallow"} <= set(wide.columns):
        reason = "guided and shallow encoders were not both trained"
        return Verdict(GUIDED, verdicts.UNMEASURED, reason)
    risks = published_risks("clip", MAIN_FLIP)
    effects, least, judged = {}, {}, {}
    for arm, sign in (("guided", -1), ("shallow", +1)):
        gap = (wide[arm] - wide["standard"]).dropna().rename("value").reset_index()
        effects[arm] = effect_over_runs(gap, confidence)
        least[arm] = OF_INTEREST * abs(risks[arm] - risks["standard"])
        judged[arm] = verdicts.decide_effect(effects[arm], sign, least[arm], 1 - confidence)
    outcome, _ = verdicts.decide_both(*judged.values())
    measured = (f"{arm} {number(wide[arm].mean())}" for arm in ENCODERS)
    printed = (f"{arm} {number(risks[arm] - risks['bayes'])}" for arm in ENCODERS)
    return Verdict(
        GUIDED, outcome, "; ".join(f"{arm}: {reason}" for arm, (_, reason) in judged.items()),
        scope=f"{scope}, K = {excess['candidates'].min():g}",
        measured=f"excess {', '.join(measured)}",
        published=f"excess at p = 0.2 and the published size: {', '.join(printed)}",
        sample=sample(excess),
        test="; ".join(
            f"{arm} − standard {verdicts.effect_text(effect, confidence)}"
            for arm, effect in effects.items()
        ),
        effect=effects["guided"], smallest=least["guided"],
    )  # fmt: skip


def _published(table: pd.DataFrame) -> Verdict:
    worth = worths(table, "vlm")
    below = sum(each.below("frozen") for each in worth)
    outcome, reason = decide_worth(below, len(worth))
    if outcome == verdicts.UNMEASURED:
        return Verdict(PUBLISHED, outcome, reason)
    values = (number(each.worth.value, 4) for each in worth)
    printed = (number(each.excess["frozen"], 4, sign=True) for each in worth)
    guided = Control(
        "A model that was shown the messages of belief propagation", "does not limit",
        "The published guided model loses less than the other modality is worth at "
        f"{sum(each.below('guided') for each in worth)} of {len(worth)} p: a rule that is too "
        "strict is not the reason.",
    )  # fmt: skip
    return Verdict(
        PUBLISHED, outcome, reason, scope=f"p = {', '.join(f'{each.flip:g}' for each in worth)}",
        measured=f"the other modality is worth {', '.join(values)}",
        published=f"excess over published Bayes {', '.join(printed)}",
        sample="one published training for each p; our samples",
        test="published excess against the lower end of the 95 % interval of what it is worth",
        controls=(guided,),
    )  # fmt: skip


def decide_worth(below: int, measured: int) -> tuple[verdicts.Outcome, str]:
    """Judge whether models lose less than the other modality is worth, by the number that do."""
    if measured == 0:
        return (
            verdicts.UNMEASURED,
            "what the other modality is worth was not measured at the published size",
        )
    reason = f"at {below} of {measured} p the model loses less than the other modality is worth"
    if below == measured:
        return verdicts.SUPPORTS, reason
    return verdicts.UNDECIDED, f"{reason}; a head that underfits loses more with any feature"
