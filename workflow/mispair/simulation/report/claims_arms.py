"""What the authors' replies to reviewers claim of other training data, encoders and noise.

The replies are on the paper's public review page (OpenReview, NeurIPS 2025): to the first review on
filtering against replacing, on S_h alone, on low noise and on several spurious features, and to two
reviews on the plain ReLU. Appendix B.4 has the statement on several spurious features too.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd

from mispair.core.words import count, number
from mispair.report import published, verdicts
from mispair.report.statistics import Effect, effect_of_mean, trial_means
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Verdict
from mispair.simulation.report.runs import PAIR, differences, listed, of_preset, runs, spurious

MARGIN = 0.02
"""Smallest difference in accuracy of interest: below the tolerance 0.03 of figure 1's points."""

ALONE = {"high-quality-only": 0.86, "filtered": 0.90}
"""Accuracies in the reply to the first review: S_h alone, and filtered (said to exceed this)."""

FULL = "workflow/configs/simulation-as-{}.yaml"

REPLACING = Claim(
    "filtering-not-worse", "simulation",
    "Filtering is at least as good as replacing every caption (accuracy; here: to within "
    f"{MARGIN:g}).",
    "reply to the first review; appendix H", "not worse", "simulation_figure1_as_run",
)  # fmt: skip
SMALL = Claim(
    "high-quality-alone", "simulation",
    "Encoders trained on filtered captions classify better than encoders trained on S_h alone.",
    "reply to the first review", "effect", "simulation_figure1_as_run",
)  # fmt: skip
SIZES = Claim(
    "group-size", "simulation",
    "Only the total probability C_s of spurious features matters, not how many share it: pairs and "
    f"groups give the same accuracy on raw captions (here: to within {MARGIN:g}).",
    "appendix B.4; replies to reviews", "the same", "simulation_grid",
)  # fmt: skip
PLAIN = Claim(
    "plain-relu", "simulation",
    "Results carry over to the plain ReLU: with it too, filtering gains accuracy.",
    "replies to reviews", "effect", "simulation_bridge",
)  # fmt: skip
QUIET = Claim(
    "low-noise", "simulation",
    "Results stay valid at low noise: there too, filtering gains accuracy.",
    "reply to the first review", "effect", "simulation_grid",
)  # fmt: skip
CLAIMS = (REPLACING, SMALL, SIZES, PLAIN, QUIET)


def judge(tables: Tables, preset: str, confidence: float) -> list[Verdict]:
    """Return the verdicts on one preset, in the order of `CLAIMS`."""
    of_condition = of_preset(tables.simulation, preset)
    config = FULL.format(preset.removeprefix("as-"))
    return [
        _replacing(of_condition, config, confidence),
        _alone(of_condition, config, confidence),
        _group_sizes(_grid(tables, preset), confidence),
        _plain_relu(tables, preset, of_condition, confidence),
        _low_noise(_grid(tables, preset), confidence),
    ]


def _replacing(table: pd.DataFrame, config: str, confidence: float) -> Verdict:
    values = spurious(differences(table, "accuracy", "filtered", "replace-all"))
    if values.empty:
        return _not_run(REPLACING, config, "arms_trials")
    effect = _effect(values, confidence)
    outcome, reason = verdicts.decide_bound(effect, -MARGIN)
    return _verdict(
        REPLACING, outcome, reason, values, _levels(table, values, "filtered", "replace-all"),
        "at least as good; no number", replace(effect, p=math.nan), MARGIN, confidence,
    )  # fmt: skip


def _alone(table: pd.DataFrame, config: str, confidence: float) -> Verdict:
    values = spurious(differences(table, "accuracy", "filtered", "high-quality-only"))
    if values.empty:
        return _not_run(SMALL, config, "arms_trials")
    effect = _effect(values, confidence)
    smallest = (ALONE["filtered"] - ALONE["high-quality-only"]) / 3
    outcome, reason = verdicts.decide_effect(effect, +1, smallest, 1 - confidence)
    expected = f"S_h alone {ALONE['high-quality-only']:g}, filtered above {ALONE['filtered']:g}"
    return _verdict(
        SMALL, outcome, reason, values, _levels(table, values, "filtered", "high-quality-only"),
        expected, effect, smallest, confidence,
    )  # fmt: skip


def _group_sizes(grid: pd.DataFrame, confidence: float) -> Verdict:
    pairs = _of_cells(grid, "raw", misalignment="partner")
    groups = _of_cells(grid, "raw", misalignment="groups")
    both = pd.concat([pairs.rename("partner"), groups.rename("groups")], axis=1).dropna()
    if both.empty:
        return _not_run(SIZES, FULL.format("written"), "grid_trials")
    values = _indexed(both["groups"] - both["partner"])
    effect = _effect(values, confidence)
    outcome, reason = verdicts.decide_equal(effect, MARGIN)
    means = both.mean()
    measured = f"accuracy on raw captions: pairs {number(means['partner'])}, groups " + number(
        means["groups"]
    )
    return _verdict(
        SIZES, outcome, reason, values, measured, "the same; no number",
        replace(effect, p=math.nan), MARGIN, confidence,
    )  # fmt: skip


def _plain_relu(
    tables: Tables, preset: str, of_condition: pd.DataFrame, confidence: float
) -> Verdict:
    table = tables.simulation
    if preset != "as-run":  # whose encoders have the plain ReLU
        of_condition = table[(table["condition"] == "bridge~encoder") & (table["preset"] == preset)]
    return _gain(PLAIN, of_condition, "bridge_trials", preset, confidence)


def _low_noise(grid: pd.DataFrame, confidence: float) -> Verdict:
    quiet = grid[grid["image_noise_variance"] == grid["image_noise_variance"].min()]
    loud = grid["image_noise_variance"].nunique() > 1
    wide = pd.DataFrame({arm: _of_cells(quiet, arm) for arm in PAIR}).dropna()
    if wide.empty or not loud:
        return _not_run(QUIET, FULL.format("written"), "grid_trials")
    values = _indexed(wide["filtered"] - wide["raw"])
    variance = float(quiet["image_noise_variance"].iloc[0])
    return _judged_gain(
        QUIET, values, wide.mean(), f"at a variance of {variance:g} per coordinate", confidence
    )


def _gain(claim: Claim, table: pd.DataFrame, key: str, preset: str, confidence: float) -> Verdict:
    values = spurious(differences(table, "accuracy"))
    if values.empty:
        return _not_run(claim, FULL.format(preset.removeprefix("as-")), key)
    means = runs(table, "accuracy").loc[values.index, list(PAIR)].mean()
    return _judged_gain(claim, values, means, "", confidence)


def _judged_gain(
    claim: Claim, values: pd.Series, means: pd.Series, where: str, confidence: float
) -> Verdict:
    effect = _effect(values, confidence)
    smallest, expected = _published_gain(values)
    outcome, reason = verdicts.decide_effect(effect, +1, smallest, 1 - confidence)
    measured = f"raw {number(means['raw'])}, filtered {number(means['filtered'])}"
    return _verdict(
        claim, outcome, reason, values, f"{measured} {where}".strip(), expected, effect, smallest,
        confidence,
    )  # fmt: skip


def _published_gain(values: pd.Series) -> tuple[float, str]:
    """Return a third of figure 1(c)'s gain at these C_s, and the gain in words."""
    raw, filtered = (published.figure1_curve("accuracy", arm) for arm in PAIR)
    at = [c for c in sorted(set(values.index.get_level_values("spurious_probability")))
          if c in raw.index]  # fmt: skip
    gain = float((filtered[at] - raw[at]).mean()) if at else math.nan
    if not gain > 0:
        return MARGIN, "a gain; no number at these C_s"
    return gain / 3, f"figure 1(c): a gain of {number(gain, sign=True)} at these C_s"


def _grid(tables: Tables, preset: str) -> pd.DataFrame:
    """Return the preset's cells of the grid with thresholds that grow with the weights."""
    table = tables.simulation
    of_grid = table[(table["kind"] == "grid") & (table["preset"] == preset)]
    return of_grid[of_grid["bias_schedule"] == "practical"]


def _of_cells(grid: pd.DataFrame, arm: str, misalignment: str | None = None) -> pd.Series:
    """Return an arm's accuracy by noise, C_s and trial, mean over models of misalignment."""
    chosen = grid if misalignment is None else grid[grid["misalignment"] == misalignment]
    keys = ["image_noise_variance", "spurious_probability", "trial"]
    parts = [
        runs(cell, "accuracy")[arm].dropna().rename("value").reset_index().assign(
            image_noise_variance=cell["image_noise_variance"].iloc[0])
        for _, cell in chosen.groupby("condition")
    ]  # fmt: skip
    if not parts:
        index = pd.MultiIndex.from_arrays([[]] * len(keys), names=keys)
        return pd.Series([], index=index, dtype="float64")
    return pd.concat(parts).groupby(keys)["value"].mean()


def _indexed(values: pd.Series) -> pd.Series:
    """Average over noises, so that a trial counts once at each C_s."""
    return spurious(values.groupby(["spurious_probability", "trial"]).mean())


def _effect(values: pd.Series, confidence: float) -> Effect:
    return effect_of_mean(trial_means(values), confidence, "trial")


def _levels(table: pd.DataFrame, values: pd.Series, arm: str, second: str) -> str:
    means = runs(table, "accuracy").loc[values.index, [arm, second]].mean()
    return f"accuracy: {arm} {number(means[arm])}, {second} {number(means[second])}"


def _not_run(claim: Claim, config: str, key: str) -> Verdict:
    reason = f"its runs are off (simulate.{key}): snakemake --configfile {config} has them"
    return Verdict(claim, verdicts.UNMEASURED, reason)


def _verdict(
    claim: Claim, outcome: verdicts.Outcome, reason: str, values: pd.Series, measured: str,
    expected: str, effect: Effect, smallest: float, confidence: float,
) -> Verdict:  # fmt: skip
    levels = values.index.get_level_values
    return Verdict(
        claim,
        outcome,
        reason,
        scope=f"accuracy, mean over C_s {listed(levels('spurious_probability'))}",
        measured=measured,
        published=expected,
        sample=count(levels("trial").nunique(), "trial"),
        test=f"difference {verdicts.effect_text(effect, confidence)}",
        effect=effect,
        smallest=smallest,
    )
