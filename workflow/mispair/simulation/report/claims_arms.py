"""Claims of the authors' replies to reviewers on other training data, encoders and noise.

The replies are on the paper's public review page (OpenReview, NeurIPS 2025): to the first review on
filtering against replacing, on S_h alone, on low noise and on several spurious features, and to two
reviews on the plain ReLU. Appendix B.4 has the statement on several spurious features too.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from mispair.core.words import number
from mispair.report import published
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Verdict, decide_bound, decide_effect, decide_equal
from mispair.simulation.report.judging import judge_difference, mean_scope, two_levels
from mispair.simulation.report.runs import (
    PAIR,
    RUN,
    differences,
    of_preset,
    runs,
    spurious,
    where,
)

MARGIN = 0.02
"""Smallest difference in accuracy of interest: below the tolerance 0.03 of figure 1's points."""

ALONE = {"high-quality-only": 0.86, "filtered": 0.90}
"""Accuracies in the reply to the first review: S_h alone, and a lower bound of filtered."""

FULL = "config/simulation-as-{}.yaml"

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
    table = of_preset(tables.simulation, preset)
    # The cells with thresholds that grow with the weights.
    grid = where(tables.simulation, kind="grid", preset=preset, bias_schedule="practical")
    config = FULL.format(preset.removeprefix("as-"))
    alone, filtered = ALONE["high-quality-only"], ALONE["filtered"]
    third = (filtered - alone) / 3
    return [
        _against(
            REPLACING, table, "replace-all", config, confidence,
            decide=lambda effect: decide_bound(effect, -MARGIN),
            published="at least as good; no number", smallest=MARGIN, against_zero=False,
        ),
        _against(
            SMALL, table, "high-quality-only", config, confidence,
            decide=lambda effect: decide_effect(effect, +1, third, 1 - confidence),
            published=f"S_h alone {alone:g}, filtered above {filtered:g}", smallest=third,
        ),
        _group_sizes(grid, confidence),
        _plain_relu(tables, preset, config, confidence),
        _low_noise(grid, confidence),
    ]  # fmt: skip


def _against(
    claim: Claim, table: pd.DataFrame, second: str, config: str, confidence: float, **rule: Any
) -> Verdict:
    """Compare the accuracy of the filtered arm with that of a second arm."""
    values = spurious(differences(table, "accuracy", "filtered", second))
    means = runs(table, "accuracy").loc[values.index, ["filtered", second]].mean()
    return judge_difference(
        claim,
        values,
        confidence=confidence,
        missing=_not_run(config, "arms_trials"),
        scope=_scope(values),
        measured=f"accuracy: {two_levels(means)}",
        **rule,
    )


def _group_sizes(grid: pd.DataFrame, confidence: float) -> Verdict:
    accuracies = {
        name: _accuracy(where(grid, misalignment=model))["raw"]
        for name, model in (("pairs", "partner"), ("groups", "groups"))
    }
    both = pd.DataFrame(accuracies).dropna()
    values = _mean_over_noises(both["groups"] - both["pairs"])
    return judge_difference(
        SIZES,
        values,
        lambda effect: decide_equal(effect, MARGIN),
        confidence,
        missing=_not_run(FULL.format("written"), "grid_trials"),
        scope=_scope(values),
        measured=f"accuracy on raw captions: {two_levels(both.mean())}",
        published="the same; no number",
        smallest=MARGIN,
        against_zero=False,
    )


def _plain_relu(tables: Tables, preset: str, config: str, confidence: float) -> Verdict:
    # Encoders of as-run have the plain ReLU; the bridge gives those of as-written one.
    table = (
        of_preset(tables.simulation, preset)
        if preset == "as-run"
        else where(tables.simulation, condition="bridge~encoder", preset=preset)
    )
    values = spurious(differences(table, "accuracy"))
    means = runs(table, "accuracy").loc[values.index, list(PAIR)].mean()
    return _gain(PLAIN, values, two_levels(means), _not_run(config, "bridge_trials"), confidence)


def _low_noise(grid: pd.DataFrame, confidence: float) -> Verdict:
    variances = grid["image_noise_variance"]
    quiet = grid[variances == variances.min()] if variances.nunique() > 1 else grid[:0]
    wide = _accuracy(quiet)[list(PAIR)].dropna()
    values = _mean_over_noises(wide["filtered"] - wide["raw"])
    measured = f"{two_levels(wide.mean())} at a variance of {variances.min():g} per coordinate"
    missing = _not_run(FULL.format("written"), "grid_trials")
    return _gain(QUIET, values, measured, missing, confidence)


def _gain(
    claim: Claim, values: pd.Series, measured: str, missing: str, confidence: float
) -> Verdict:
    """Judge the gain by filtering against a third of the gain published at these C_s."""
    raw, filtered = (published.figure1_curve("accuracy", arm) for arm in PAIR)
    at = sorted(set(values.index.get_level_values("spurious_probability")) & set(raw.index))
    gain = float((filtered[at] - raw[at]).mean())
    smallest, expected = MARGIN, "a gain; no number at these C_s"
    if gain > 0:
        smallest = gain / 3
        expected = f"figure 1(c): a gain of {number(gain, sign=True)} at these C_s"
    return judge_difference(
        claim,
        values,
        lambda effect: decide_effect(effect, +1, smallest, 1 - confidence),
        confidence,
        missing=missing,
        scope=_scope(values),
        measured=measured,
        published=expected,
        smallest=smallest,
    )


def _accuracy(grid: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy of arms (columns) by noise, C_s and trial, mean over misalignments."""
    keys = ["image_noise_variance", *RUN]
    cells = [
        runs(cell, "accuracy")
        .reset_index()
        .assign(image_noise_variance=cell["image_noise_variance"].iloc[0])
        for _, cell in grid.groupby("condition")
    ]
    if not cells:
        return pd.DataFrame(columns=[*keys, *PAIR], dtype="float64").set_index(keys)
    return pd.concat(cells).groupby(keys).mean()


def _mean_over_noises(values: pd.Series) -> pd.Series:
    """Average over noises, so that a trial counts once at each C_s."""
    return spurious(values.groupby(RUN).mean())


def _scope(values: pd.Series) -> str:
    return f"accuracy, {mean_scope(values)}"


def _not_run(config: str, key: str) -> str:
    return f"its runs are off (simulate.{key}): snakemake --configfile {config} has them"
