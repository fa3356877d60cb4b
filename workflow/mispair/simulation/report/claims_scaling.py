"""The theorems' asymptotic statements, judged by slopes over the number of features d.

Θ(1/d), o(1) and 1 − Θ(1) name no constants: nothing at one d agrees with them or contradicts them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pandas as pd

from mispair.core.words import count, listing, number
from mispair.report import verdicts
from mispair.report.statistics import Effect
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Control, Verdict
from mispair.simulation.report import controls_simulation
from mispair.simulation.report.runs import PAIR, main
from mispair.simulation.report.slopes import Slope, slope

PROFILE = "workflow/configs/simulation-scaling.yaml"

FLAT = 0.25
"""Smallest slope of interest: from d = 20 to 120 it is a change by a factor of 1.6."""

BENT = 1.5
"""Factor between a mean and the fitted line from which a power law is no fair summary."""

FIGURE = "simulation_scaling"

OPTIMAL = Claim(
    "loss-near-optimal", "simulation",
    "Training ends near the optimal loss on raw and filtered captions: the relative gap is o(1). "
    "The reference here is the same "
    "run continued by half, which is a local one and not the optimum L*.",
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
"""What is followed over d, with its unit."""


def judge(tables: Tables, preset: str, confidence: float) -> list[Verdict]:
    """Return the verdicts on a preset's sweep over d, in the order of `CLAIMS`."""
    table = of_sweep(tables, preset)
    if table.empty:
        return [Verdict(claim, verdicts.UNMEASURED, _not_run(preset)) for claim in CLAIMS]
    get = fitted(table, confidence).get
    wide = fitted(of_sweep(tables, preset, wide=True), confidence).get
    captions = {what: get((what, "generated")) for what in ("missing", "wrong")}
    gaps = {f"gap, {arm}": get(("gap", arm)) for arm in PAIR}
    return [
        _slope(OPTIMAL, table, gaps, confidence),
        _order(RESIDUAL, table, {"residual": get(("residual", "raw"))}),
        _order(CAPTIONS, table, captions, (
            controls_simulation.generated_against_raw(table, confidence),
            controls_simulation.at_their_own_length(table),
        )),
        _order(PURE, table, {"residual": get(("residual", "filtered"))}),
        _constant(FAILS, table, get(("failure", "raw")), "failure"),
        _slope(SUCCEED, table, {"failure": get(("failure", "filtered"))}, confidence,
               (_without_neuron(get(("unpurified", "filtered"))),
                _with_more_neurons(wide(("failure", "filtered"))))),
    ]  # fmt: skip


def of_sweep(tables: Tables, preset: str, wide: bool = False) -> pd.DataFrame:
    """Return a preset's rows of the sweep over d, or of the one with more neurons."""
    table = tables.simulation
    of_scaling = table[(table["kind"] == "scaling") & (table["preset"] == preset)]
    return of_scaling[(of_scaling["condition"].str.count("~") == 2) == wide]


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

    def add(measure: str, name: str, rows: pd.DataFrame, one_less: bool = False) -> None:
        by_trial = rows.groupby(["features", "trial"])["value"].mean()
        by_trial = 1 - by_trial if one_less else by_trial
        if len(by_trial):
            by_arm[measure, name] = {
                int(float(str(d))): group.tolist() for d, group in by_trial.groupby("features")
            }

    for arm, residual in (("raw", "residual_share"), ("filtered", "residual_share_pure")):
        of_arm = selected[selected["trained_on"] == arm]
        purified = of_arm[of_arm["metric"] == "purified_features"]
        purified = purified.assign(value=purified["value"] / purified["features"])
        add("failure", arm, of_arm[of_arm["metric"] == "accuracy"], one_less=True)
        add("residual", arm, of_arm[of_arm["metric"] == residual])
        add("gap", arm, of_arm[of_arm["metric"] == "loss_gap"])
        add("mixed", arm, of_arm[of_arm["metric"] == "mixed_neurons"])
        add("unpurified", arm, purified, one_less=True)
    for source in ("raw", "generated", "filtered"):
        of_source = selected[selected["source"] == source]
        add("missing", source, of_source[of_source["metric"] == "caption_true"], one_less=True)
        add("wrong", source, of_source[of_source["metric"] == "caption_spurious"])
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
    """Print the mean over trials; small ones by their digits that count."""
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


def _slope(
    claim: Claim, table: pd.DataFrame, fits: dict[str, Slope | None], confidence: float,
    controls: tuple[Control, ...] = (),
) -> Verdict:  # fmt: skip
    fitted_slopes = {what: fit for what, fit in fits.items() if fit is not None}
    for what in fits:
        if what not in fitted_slopes:
            return _too_few(claim, what)
    # The slope that is further from the claim decides.
    worst = max(fitted_slopes.values(), key=lambda fit: fit.effect.value)
    outcome, reason = verdicts.decide_effect(worst.effect, -1, FLAT, 1 - confidence)
    return Verdict(
        claim, outcome, reason, **_said(table, fitted_slopes),
        published="o(1): a slope below 0", effect=worst.effect, smallest=FLAT,
        controls=(*_bent(fitted_slopes), *controls),
    )  # fmt: skip


def _constant(claim: Claim, table: pd.DataFrame, fit: Slope | None, what: str) -> Verdict:
    if fit is None:
        return _too_few(claim, what)
    outcome, reason = verdicts.decide_equal(fit.effect, FLAT)
    return Verdict(
        claim, outcome, reason, **_said(table, {what: fit}),
        published="1 − Θ(1): a slope of 0", effect=_uncorrected(fit.effect), smallest=FLAT,
        controls=_bent({what: fit}),
    )  # fmt: skip


def _order(
    claim: Claim, table: pd.DataFrame, fits: dict[str, Slope | None],
    controls: tuple[Control, ...] = (),
) -> Verdict:  # fmt: skip
    fitted_slopes = {what: fit for what, fit in fits.items() if fit is not None}
    for what in fits:
        if what not in fitted_slopes:
            return _too_few(claim, what)
    # The slope that is further from the claim decides.
    worst = max(fitted_slopes.values(), key=lambda fit: fit.effect.value)
    outcome, reason = verdicts.decide_bound(worst.effect, -1 + FLAT, -1)
    return Verdict(
        claim, outcome, reason, **_said(table, fitted_slopes),
        published="Θ(1/d): a slope of −1, or below", effect=_uncorrected(worst.effect),
        smallest=FLAT, controls=(*_bent(fitted_slopes), *controls),
    )  # fmt: skip


def _too_few(claim: Claim, what: str) -> Verdict:
    reason = f"fewer than three d have two trials with a {what} above 0"
    return Verdict(claim, verdicts.UNMEASURED, reason)


def _said(table: pd.DataFrame, fits: dict[str, Slope]) -> dict[str, Any]:
    """Return what a verdict prints of its slopes."""
    dimensions = sorted({d for fit in fits.values() for d in fit.means})
    trials = min(fit.effect.n for fit in fits.values())
    probabilities = ", ".join(f"{c:g}" for c in sorted(set(table["spurious_probability"])))
    measured = "; ".join(
        f"{what} {_at(fit, min(fit.means))}, {_at(fit, max(fit.means))}"
        for what, fit in fits.items()
    )
    return {
        "scope": f"d = {listing([str(d) for d in dimensions])} at C_s {probabilities}",
        "measured": measured,
        "sample": f"{count(trials, 'trial')} or more at each d",
        "test": "; ".join(f"{what}: {slope_text(fit)}" for what, fit in fits.items()),
    }


def _at(fit: Slope, d: int) -> str:
    most = "at most " if d in fit.bounds else ""
    return f"{most}{mean_text([fit.means[d]])} at d = {d}"


def _uncorrected(effect: Effect) -> Effect:
    """Drop the p value against a slope of 0, which is not what these rules test."""
    return replace(effect, p=math.nan)


def _bent(fits: dict[str, Slope]) -> tuple[Control, ...]:
    name = "One power law"
    what, fit = max(fits.items(), key=lambda item: item[1].departure)
    text = f"Means of {what} depart from the fitted line by a factor of up to {fit.departure:.2f}"
    if fit.departure > BENT:
        return (Control(name, "limits", f"{text}: a slope over all d sums it up badly."),)
    return (Control(name, "does not limit", f"{text}."),)


def _with_more_neurons(fit: Slope | None) -> Control:
    name = "More neurons for each feature"
    if fit is None:
        return Control(name, "not measured", "The sweep over d was run with one number of neurons "
                       "for each feature.")  # fmt: skip
    first, last = min(fit.means), max(fit.means)
    text = (
        f"With more neurons the failure goes from {number(fit.means[first])} at d = {first} to "
        f"{number(fit.means[last])} at d = {last}: {slope_text(fit)}."
    )
    return Control(name, "does not limit" if fit.effect.high < 0 else "limits", text)


def _without_neuron(fit: Slope | None) -> Control:
    name = "Features without a neuron"
    if fit is None:
        return Control(name, "not measured", "No counts of purified features at three d.")
    first, last = min(fit.means), max(fit.means)
    text = (
        f"No neuron purifies {100 * fit.means[first]:.0f} % of the features at d = {first} and "
        f"{100 * fit.means[last]:.0f} % at d = {last}"
    )
    if fit.effect.value > -FLAT:
        return Control(
            name, "limits", f"{text}: random starts of so few neurons leave features out, at every "
            "d, and no caption repairs that.",
        )  # fmt: skip
    return Control(name, "does not limit", f"{text}.")
