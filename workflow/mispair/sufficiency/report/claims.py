"""The companion paper's claims on contrastive pre-training, judged on the tables."""

from __future__ import annotations

import math

import pandas as pd

from mispair.core.words import number
from mispair.report import published, verdicts
from mispair.report.statistics import Interval, trend
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Control, Verdict
from mispair.sufficiency.report.runs import (
    MAIN_FLIP,
    NOT_RUN,
    RUN,
    Worth,
    effect_over_runs,
    main_flip,
    over_runs,
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


def _published_risks(task: str) -> dict[str, float]:
    """Return published risks at p = 0.2 by model."""
    table = published.sufficiency_risks()
    risks = table[(table["task"] == task) & (table["flip"] == MAIN_FLIP)]
    return {str(row["model"]): float(row["risk"]) for _, row in risks.iterrows()}


def _by_run(measured: pd.DataFrame) -> pd.Series:
    return measured.set_index(RUN)["value"].astype(float)


def _shares(runs: pd.DataFrame, top: pd.DataFrame, bottom: pd.DataFrame) -> pd.DataFrame:
    shares = (_by_run(top) / _by_run(bottom)).dropna()
    return shares.rename("value").reset_index()


def _sufficient(runs: pd.DataFrame, scope: str, confidence: float) -> Verdict:
    divergences = runs[(runs["metric"] == "sufficiency") & (runs["part"] == "both")]
    k = divergences["candidates"].max()
    divergences = divergences[divergences["candidates"] == k]
    standard, untrained = (
        divergences[divergences["arm"] == arm] for arm in ("standard", "untrained")
    )
    shares = _shares(runs, standard, untrained)
    if shares.empty:
        return Verdict(SUFFICIENT, verdicts.UNMEASURED, "no encoders were measured")
    share = over_runs(shares, confidence)
    outcome, reason = verdicts.decide_level(share, NEARLY, -1)
    return Verdict(
        SUFFICIENT,
        outcome,
        reason,
        scope=f"{scope}, K = {k:g}",
        measured=f"divergence {number(standard['value'].mean())} nats, untrained "
        f"{number(untrained['value'].mean())}: {number(share.value)} of it",
        published="no number: only the excess risk at K = 4 is",
        sample=sample(standard),
        test=_interval(share, confidence),
        controls=(_information(runs),),
    )


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
        f"random ones {number(lost['untrained'])}: a random map is nearly one to one, so that "
        "this measure alone would show little.",
    )


def _classes(runs: pd.DataFrame, scope: str, confidence: float) -> Verdict:
    gaps = runs[(runs["task"] == "zsc") & (runs["reference"] == "bayes") & runs["shifted"].isna()]
    m = gaps["per_class"].max()
    gaps = gaps[gaps["per_class"] == m]
    standard, untrained, exact = (
        gaps[gaps["arm"] == arm] for arm in ("standard", "untrained", "exact")
    )
    shares = _shares(runs, standard, untrained)
    if shares.empty:
        return Verdict(CLASSES, verdicts.UNMEASURED, "nothing was classified")
    share = over_runs(shares, confidence)
    outcome, reason = verdicts.decide_level(share, NEARLY, -1)
    prompts = Control(
        "Prompts alone",
        "does not limit",
        f"With the best similarity and the same {m:g} prompts the excess is "
        f"{number(exact['value'].mean())}: so much of it is owed to the prompts.",
    )
    printed = _published_risks("zsc")
    return Verdict(
        CLASSES,
        outcome,
        reason,
        scope=f"{scope}, M = {m:g}",
        measured=f"excess {number(standard['value'].mean())}, untrained "
        f"{number(untrained['value'].mean())}: {number(share.value)} of it",
        published=f"excess {number(printed['standard'] - printed['bayes'])} at M = 250 and the "
        "published size",
        sample=sample(standard),
        test=_interval(share, confidence),
        controls=(prompts,),
    )


def _prompts(runs: pd.DataFrame, scope: str, alpha: float) -> Verdict:
    risks = runs[(runs["task"] == "zsc") & (runs["metric"] == "risk") & runs["shifted"].isna()]
    risks = risks[(risks["arm"] == "standard") & (risks["per_class"] >= 5)]
    blocks = [str(tuple(row)) for row in risks[RUN].itertuples(index=False)]
    trend_of_risks = trend([float(m) for m in risks["per_class"]], list(risks["value"]), blocks)
    outcome, reason = verdicts.decide_trend(trend_of_risks, -1, alpha)
    fits = runs[(runs["task"] == "zsc") & (runs["arm"] == "standard")].groupby("metric")["value"]
    fit = dict(fits.mean())
    law = "no fit"
    if {"slope", "level", "residual"} <= fit.keys():
        law = (
            f"{number(fit['slope'], 2)} / M + {number(fit['level'])}, residual "
            f"{number(fit['residual'])}"
        )
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
    return Verdict(
        claim,
        outcome,
        reason,
        scope=scope,
        measured=f"excess {number(excess, digits)}; {opposite} is worth {number(worth, digits)}",
        published="see the published size below",
        sample=sample(frozen),
        test=f"frozen − unconditional {verdicts.effect_text(effect, confidence, digits)}",
        effect=effect,
        smallest=smallest,
        controls=(
            _untrained(gap("frozen", "untrained"), gap("untrained", "unconditional"), confidence),
        ),
    )


def _untrained(gain: pd.DataFrame, alone: pd.DataFrame, confidence: float) -> Control:
    name = "The same with an untrained encoder"
    if gain.empty:
        return Control(name, "not measured", "No head on an untrained feature was trained.")
    value, untrained_effect = over_runs(gain, confidence), over_runs(alone, confidence)
    limited = value.known and value.high >= 0
    meaning = ""
    if limited and value.value < 0:
        meaning = ": that varies too much between these runs to be sure of"
    elif limited:
        meaning = ": it is not the training that serves"
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
    gaps = [
        effect_over_runs(
            (wide[arm] - wide["standard"]).dropna().rename("value").reset_index(), confidence
        )
        for arm in ("guided", "shallow")
    ]
    risks = _published_risks("clip")
    least = [OF_INTEREST * abs(risks[arm] - risks["standard"]) for arm in ("guided", "shallow")]
    closer, farther = (
        verdicts.decide_effect(effect, sign, smallest, 1 - confidence)
        for effect, sign, smallest in zip(gaps, (-1, +1), least, strict=True)
    )
    outcome, reason = verdicts.decide_both(closer, farther)
    return Verdict(
        GUIDED,
        outcome,
        f"guided: {closer[1]}; shallow: {farther[1]}",
        scope=f"{scope}, K = {excess['candidates'].min():g}",
        measured="excess "
        + ", ".join(
            f"{arm} {number(wide[arm].mean())}" for arm in ("guided", "standard", "shallow")
        ),
        published="excess at p = 0.2 and the published size: "
        + ", ".join(
            f"{arm} {number(risks[arm] - risks['bayes'])}"
            for arm in ("guided", "standard", "shallow")
        ),
        sample=sample(excess),
        test=f"guided − standard {verdicts.effect_text(gaps[0], confidence)}; shallow − standard "
        f"{verdicts.effect_text(gaps[1], confidence)}",
        effect=gaps[0],
        smallest=least[0],
    )


def _published(table: pd.DataFrame) -> Verdict:
    worth = worths(table, "vlm", published.sufficiency_risks())
    below = sum(each.below("frozen") for each in worth)
    outcome, reason = decide_worth(below, len(worth))
    if outcome == verdicts.UNMEASURED:
        return Verdict(PUBLISHED, outcome, reason)
    digits = 4
    return Verdict(
        PUBLISHED,
        outcome,
        reason,
        scope=f"p = {', '.join(f'{each.flip:g}' for each in worth)}",
        measured="the other modality is worth "
        + ", ".join(number(each.worth.value, digits) for each in worth),
        published="excess over published Bayes "
        + ", ".join(number(each.excess["frozen"], digits, sign=True) for each in worth),
        sample="one published training for each p; our samples",
        test="published excess against the lower end of the 95 % interval of what it is worth",
        controls=(_guided_published(worth),),
    )


def _guided_published(worth: list[Worth]) -> Control:
    below = sum(each.below("guided") for each in worth)
    return Control(
        "A model that was shown the messages of belief propagation",
        "does not limit",
        f"The published guided model loses less than the other modality is worth at {below} of "
        f"{len(worth)} p: that the rule asks too much is not the reason.",
    )


def _interval(interval: Interval, confidence: float) -> str:
    if not (math.isfinite(interval.low) and math.isfinite(interval.high)):
        return "no interval (one run)"
    return f"{100 * confidence:g} % interval {number(interval.low)} to {number(interval.high)}"


def decide_worth(below: int, measured: int) -> tuple[verdicts.Outcome, str]:
    """Judge whether models lose less than the other modality is worth, by where they do."""
    if measured == 0:
        return (
            verdicts.UNMEASURED,
            "what the other modality is worth was not measured at the published size",
        )
    reason = f"at {below} of {measured} p the model loses less than the other modality is worth"
    if below == measured:
        return verdicts.SUPPORTS, reason
    return (
        verdicts.UNDECIDED,
        f"{reason}; a head that underfits loses more with any feature",
    )
