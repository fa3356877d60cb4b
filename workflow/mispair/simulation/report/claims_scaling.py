"""The theorems' asymptotic statements, judged by slopes over the number of features d.

Θ(1/d), o(1) and 1 − Θ(1) name no constants: a value at one d cannot agree or disagree with them.
"""

from __future__ import annotations

import pandas as pd

from mispair.core.words import count, listing, number
from mispair.report.statistics import without_p
from mispair.report.tables import Tables
from mispair.report.verdicts import (
    Claim,
    Control,
    Verdict,
    decide_bound,
    decide_effect,
    decide_equal,
)
from mispair.simulation.report import controls_simulation
from mispair.simulation.report.judging import control, no_control, unmeasured
from mispair.simulation.report.runs import PAIR, listed, main, where
from mispair.simulation.report.slopes import Slope, slope

PROFILE = "config/simulation-scaling.yaml"

FLAT = 0.25
"""Smallest slope of interest: from d = 20 to 120 it is a change by a factor of 1.6."""

BENT = 1.5
"""Factor between a mean and the fitted line above which a power law is a poor summary."""

FIGURE = "simulation_scaling"

OPTIMAL = Claim(
    "loss-near-optimal", "simulation",
    "Training ends near the optimal loss on raw and filtered captions: the relative gap is o(1). "
    "The reference here is the same run continued by half: a local one, not the optimum L*.",
    "theorem 4.1", "slope", FIGURE,
)  # fmt: skip
RESIDUAL = Claim(
    "raw-residual", "simulation",
    "Beyond the two features of a spurious pair, neurons trained on raw captions hold a share of "
    "order 1/d of their energy.",
    "theorem 4.2", "slope of the order", FIGURE,
)  # fmt: skip
CAPTIONS = Claim(
    "captions-repaired", "simulation",
    "Generated captions keep an image’s features with probability 1 − Θ(1/d) and hold wrong ones "
    "with probability Θ(1/d).",
    "theorem 4.3", "slope of the order", FIGURE,
)  # fmt: skip
PURE = Claim(
    "filtered-residual", "simulation",
    "Beyond one feature, neurons trained on filtered captions hold a share of order 1/d of their "
    "energy.",
    "theorem 4.4", "slope of the order", FIGURE,
)  # fmt: skip
FAILS = Claim(
    "raw-fails", "simulation",
    "Encoders trained on raw captions fail with a probability that does not depend on d.",
    "theorem 4.5", "slope of zero", FIGURE,
)  # fmt: skip
SUCCEED = Claim(
    "filtered-succeeds", "simulation",
    "Encoders trained on filtered captions fail with a probability o(1).",
    "theorem 4.5", "slope", FIGURE,
)  # fmt: skip
CLAIMS = (OPTIMAL, RESIDUAL, CAPTIONS, PURE, FAILS, SUCCEED)

MEASURES = {
    "failure": "Failure (1 − accuracy)",
    "residual": "Energy beyond a neuron’s features (share)",
    "wrong": "Wrong features added (probability)",
    "missing": "Right features missing (probability)",
    "gap": "Gap to the same run continued (relative)",
    "unpurified": "Features that no neuron purifies (share)",
    "mixed": "Neurons that mix a spurious pair (share)",
}
"""Measures that are followed over d, with their units."""


SLOPES: dict[Claim, dict[str, tuple[str, str]]] = {
    OPTIMAL: {f"gap, {arm}": ("gap", arm) for arm in PAIR},
    RESIDUAL: {"residual": ("residual", "raw")},
    CAPTIONS: {measure: (measure, "generated") for measure in ("missing", "wrong")},
    PURE: {"residual": ("residual", "filtered")},
    FAILS: {"failure": ("failure", "raw")},
    SUCCEED: {"failure": ("failure", "filtered")},
}
"""Slopes that decide each claim: a name, and the measure with its arm or source of captions."""

PUBLISHED = {
    "slope": "o(1): a slope below 0",
    "slope of the order": "Θ(1/d): a slope of −1, or below",
    "slope of zero": "1 − Θ(1): a slope of 0",
}
"""Statements of the theorems by the rule of a claim."""


def judge(tables: Tables, preset: str, confidence: float) -> list[Verdict]:
    """Return the verdicts on a preset's sweep over d, in the order of `CLAIMS`."""
    table = of_sweep(tables, preset)
    if table.empty:
        return [unmeasured(claim, _not_run(preset)) for claim in CLAIMS]
    fits = fitted(table, confidence)
    wide = fitted(of_sweep(tables, preset, wide=True), confidence)
    controls = {
        CAPTIONS: (
            controls_simulation.generated_against_raw(table, confidence),
            controls_simulation.at_their_own_length(table),
        ),
        SUCCEED: (
            _without_neuron(fits.get(("unpurified", "filtered"))),
            _with_more_neurons(wide.get(("failure", "filtered"))),
        ),
    }
    return [
        _judge_slopes(
            claim,
            listed(table["spurious_probability"]),
            {name: fits.get(key) for name, key in SLOPES[claim].items()},
            confidence,
            controls.get(claim, ()),
        )
        for claim in CLAIMS
    ]


def of_sweep(tables: Tables, preset: str, wide: bool = False) -> pd.DataFrame:
    """Return a preset's rows of the sweep over d, or of the one with more neurons."""
    table = where(tables.simulation, kind="scaling", preset=preset)
    return table[(table["condition"].str.count("~") == 2) == wide]


def _not_run(preset: str) -> str:
    if preset == "as-run":
        return (
            "outside the theorem’s assumptions: whole captions are redrawn, the loss is InfoNCE "
            "and the optimiser Adam"
        )
    return (
        "an asymptotic statement is judged by slopes over d: "
        f"snakemake --configfile {PROFILE} runs them"
    )


def values(table: pd.DataFrame) -> dict[tuple[str, str], dict[int, list[float]]]:
    """Return one number for each trial, by measure and arm (or source of captions), and by d."""
    selected = main(table)
    selected = selected[selected["value"].notna()]
    by_arm: dict[tuple[str, str], dict[int, list[float]]] = {}

    def add(measure: str, rows: pd.DataFrame, name: str, metric: str) -> None:
        means = where(rows, metric=metric).groupby(["features", "trial"])["value"].mean()
        if metric == "purified_features":
            means /= means.index.get_level_values("features")
        if measure in ("failure", "unpurified", "missing"):
            means = 1 - means
        if len(means):
            lists = means.groupby("features").agg(list)
            by_arm[measure, name] = dict(zip(lists.index.astype(int).tolist(), lists, strict=True))

    for arm, residual in (("raw", "residual_share"), ("filtered", "residual_share_pure")):
        of_arm = where(selected, trained_on=arm)
        add("failure", of_arm, arm, "accuracy")
        add("residual", of_arm, arm, residual)
        add("gap", of_arm, arm, "loss_gap")
        add("mixed", of_arm, arm, "mixed_neurons")
        add("unpurified", of_arm, arm, "purified_features")
    for source in ("raw", "generated", "filtered"):
        of_source = where(selected, source=source)
        add("missing", of_source, source, "caption_true")
        add("wrong", of_source, source, "caption_spurious")
    return by_arm


def fitted(table: pd.DataFrame, confidence: float) -> dict[tuple[str, str], Slope]:
    """Return the slopes of `values` over d, where there are enough d."""
    counted = table.groupby("features")["caption_features"].max()
    cases = {int(float(str(d))): float(n) for d, n in counted.items() if n > 0}
    fits = {
        (measure, name): slope(by_d, confidence, cases if measure in ("wrong", "missing") else None)
        for (measure, name), by_d in values(table).items()
    }
    return {key: fit for key, fit in fits.items() if fit is not None}


def mean_text(trials: list[float]) -> str:
    """Print the mean over trials; small ones with two significant digits."""
    mean = sum(trials) / len(trials)
    return f"{mean:.2g}" if 0 < mean < 0.001 else number(mean, 4)


def slope_text(fit: Slope) -> str:
    """Print a slope with its interval."""
    effect = fit.effect
    text = f"slope {number(effect.value, 2, sign=True)}"
    if effect.known:
        text += f" [{number(effect.low, 2, sign=True)}, {number(effect.high, 2, sign=True)}]"
    if fit.bounds:
        text += f" (none at d = {', '.join(map(str, sorted(fit.bounds)))}: upper bounds there)"
    return text


def _judge_slopes(
    claim: Claim,
    probabilities: str,
    fits: dict[str, Slope | None],
    confidence: float,
    controls: tuple[Control, ...],
) -> Verdict:
    """Judge a claim by its rule, on the slope that is furthest from it."""
    slopes = {name: fit for name, fit in fits.items() if fit is not None}
    for name in fits:
        if name not in slopes:
            reason = f"fewer than three d have two trials with a {name} above 0"
            return unmeasured(claim, reason)
    effect = max((fit.effect for fit in slopes.values()), key=lambda effect: effect.value)
    if claim.rule == "slope":
        outcome, reason = decide_effect(effect, -1, FLAT, 1 - confidence)
    else:
        outcome, reason = (
            decide_equal(effect, FLAT)
            if claim.rule == "slope of zero"
            else decide_bound(effect, -1 + FLAT, -1)
        )
        effect = without_p(effect)
    dimensions = sorted({d for fit in slopes.values() for d in fit.means})
    trials = min(fit.effect.n for fit in slopes.values())
    return Verdict(
        claim,
        outcome,
        reason,
        scope=f"d = {listing([str(d) for d in dimensions])} at C_s {probabilities}",
        measured="; ".join(
            f"{name} {_at(fit, min(fit.means))}, {_at(fit, max(fit.means))}"
            for name, fit in slopes.items()
        ),
        published=PUBLISHED[claim.rule],
        sample=f"{count(trials, 'trial')} or more at each d",
        test="; ".join(f"{name}: {slope_text(fit)}" for name, fit in slopes.items()),
        effect=effect,
        smallest=FLAT,
        controls=(_power_law(slopes), *controls),
    )


def _at(fit: Slope, d: int) -> str:
    most = "at most " if d in fit.bounds else ""
    return f"{most}{mean_text([fit.means[d]])} at d = {d}"


def _power_law(slopes: dict[str, Slope]) -> Control:
    """Compare the means with the fitted lines."""
    measure, fit = max(slopes.items(), key=lambda item: item[1].departure)
    text = (
        f"Means of {measure} depart from the fitted line by a factor of up to {fit.departure:.2f}"
    )
    if fit.departure > BENT:
        text += ": a slope over all d is a poor summary"
    return control("One power law", fit.departure > BENT, f"{text}.")


def _with_more_neurons(fit: Slope | None) -> Control:
    name = "More neurons for each feature"
    if fit is None:
        text = "The sweep over d was run with one number of neurons for each feature."
        return no_control(name, text)
    first, last = min(fit.means), max(fit.means)
    text = (
        f"With more neurons the failure goes from {number(fit.means[first])} at d = {first} to "
        f"{number(fit.means[last])} at d = {last}: {slope_text(fit)}."
    )
    return control(name, not fit.effect.high < 0, text)


def _without_neuron(fit: Slope | None) -> Control:
    name = "Features without a neuron"
    if fit is None:
        return no_control(name, "No counts of purified features at three d.")
    first, last = min(fit.means), max(fit.means)
    text = (
        f"No neuron purifies {100 * fit.means[first]:.0f} % of the features at d = {first} and "
        f"{100 * fit.means[last]:.0f} % at d = {last}"
    )
    constant = fit.effect.value > -FLAT
    if constant:
        text += (
            ": random starts of so few neurons leave features out at every d, which no caption "
            "can repair"
        )
    return control(name, constant, f"{text}.")
