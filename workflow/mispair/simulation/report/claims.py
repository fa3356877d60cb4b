"""The paper's claims on the simulation, and the questions that they answer.

A trial is the replicate: it has the same data at every C_s, so effects are averaged over all C_s
above 0 within each trial. `claims_scaling` has the asymptotic claims.
"""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from mispair.report import published
from mispair.report.claims import SAME, Claim, Control, MeasuredClaim
from mispair.report.measures import Arms, Ends, Level
from mispair.report.questions import Question
from mispair.report.statistics import effect_of_mean, unknown_effect
from mispair.report.tables import Tables, where
from mispair.simulation.report import claims_scaling, effects
from mispair.simulation.report.claims_scaling import FEW_PURIFIED, LEARNED
from mispair.simulation.report.effects import (
    SHOWN,
    ArmMeasure,
    Reproduced,
    Sized,
    difference,
    extended,
    figure1,
    gain_of_curves,
    protocol,
    third_of_gain,
)
from mispair.simulation.report.runs import of_preset, points, presets

FIGURE1 = "simulation_figure1_{preset}"
COUNTED = "purified_features"

NEARLY_ALL, UP_TO = 0.95, 0.3
"""Share of the features, and largest C_s, of "nearly all features, even at C_s = 0.3"."""

HARMLESS = 0.1
"""Largest share of right captions that a filter may replace, of the share of wrong ones."""

MIXED = 0.1
"""Smallest share of neurons of interest: one in ten. The theorem says all, and gives no number."""

RUN = "studies: [simulation]"
PAIRS = "simulate: {preset: as-written}"


def _gain(key: str, panel: str, sentence: str, unit: str = "", *controls: Control) -> Claim:
    """Declare the claim that filtering raises a measure of figure 1."""
    measure, third = difference(key, curves=True), third_of_gain(key)
    return Claim(
        f"filtered-{key}", "simulation", sentence, f"figure {panel}", FIGURE1,
        Sized(measure, third) if key == COUNTED else measure,
        bound=third, primary=key == "accuracy", unit=unit, needs=RUN, power=_learned,
        controls=(
            *controls,
            Control(
                "Right captions that the filter replaces, of the share of wrong ones",
                Level(ArmMeasure("replaced_share_clean", "filtered"), unit="trial"),
                least=None, most=HARMLESS,
                of=Level(ArmMeasure("replaced_share_bad", "filtered"), unit="trial"),
            ),
            Control(
                "Filtering where every caption is right",
                difference(key, pick=effects.clean, zero=True), least=None, most=SAME,
            ),
        ),
    )  # fmt: skip


def _learned(tables: Tables, confidence: float) -> str:
    """Return `FEW_PURIFIED` if filtered captions at the lowest C_s purify too few features."""
    counts = ArmMeasure(COUNTED, "filtered", zero=True)(tables)
    counts = counts[counts["rate"] == counts["rate"].min()]
    features = float(figure1(tables.simulation)["features"].max())
    return FEW_PURIFIED if counts["value"].mean() < LEARNED * features else ""


def _by_protocol(prompts: str, bias: str) -> Arms:
    return difference("accuracy_by_protocol", pick=protocol(prompts, bias))


OTHER_TEST = "By the test of the other preset"

GAINS = (
    _gain(
        "accuracy", "1(c)", "Encoders trained on filtered captions classify better zero-shot.",
        "points",
        Control(OTHER_TEST, difference(pick=effects.other_definition)),
        Control("With all biases set to zero", _by_protocol("noisy", "zero")),
        Control("With noiseless prompts", _by_protocol("noiseless", "trained")),
        Control("With the encoders of the other preset", difference(pick=effects.other_encoder)),
        Control("At the lowest noise of the grid", difference(pick=effects.low_noise)),
        Control("Trained without thresholds", difference(pick=effects.without_thresholds)),
    ),
    _gain(
        COUNTED, "1(a)", "Encoders trained on filtered captions purify more features.", "features"
    ),
    _gain(
        "silhouette", "1(d)",
        "Classes are further apart with filtered captions (larger silhouette).",
    ),
)  # fmt: skip


def _raw_curve() -> pd.Series:
    return extended(published.figure1_curve(COUNTED, "raw"))


def _gap_curve() -> pd.Series:
    return extended(gain_of_curves("accuracy"))


def _nearly_all(tables: Tables, confidence: float) -> MeasuredClaim:
    """Measure the count of purified features at the largest C_s of the claim.

    The level is `NEARLY_ALL` of the features of the runs. Equal counts have the spread of rounding.
    """
    series = ArmMeasure(COUNTED, "filtered")(tables)
    series = series[series["rate"] <= UP_TO]
    features = float(figure1(tables.simulation)["features"].max())
    if series.empty or not features > 0:
        return MeasuredClaim()
    rate = float(series["rate"].max())
    counts = series.loc[series["rate"] == rate, "value"].tolist()
    curve = published.figure1_curve(COUNTED, "filtered")
    return MeasuredClaim(
        effect_of_mean(counts, confidence, "trial", resolution=1),
        NEARLY_ALL * features,
        float(curve.get(rate, float("nan"))),
        at=(rate,),
    )


def _all_pairs(tables: Tables, confidence: float) -> MeasuredClaim:
    """Return what the share of spurious pairs is compared with: all of them."""
    return MeasuredClaim(unknown_effect(1.0, 1, "run"))


CLAIMS = (
    *GAINS,
    Claim(
        "gap-widens", "simulation",
        "The gain in accuracy by filtering widens the more captions are wrong.",
        "figure 1(c), section 5.1", FIGURE1,
        Ends(effects.gains, published=_gap_curve, unit="trial"), unit="points", needs=RUN,
        power=_learned,
    ),
    Claim(
        "raw-degrades", "simulation",
        "Encoders trained on raw captions purify fewer features the more captions are wrong.",
        "figure 1(a)", FIGURE1,
        Sized(Ends(ArmMeasure(COUNTED, "raw", zero=True), published=_raw_curve, unit="trial")),
        sign=-1, unit="features", needs=RUN, power=_learned,
    ),
    Claim(
        "nearly-all", "simulation",
        f"With filtered captions nearly all features (here: {100 * NEARLY_ALL:g} %) are purified "
        f"even at C_s = {UP_TO:g}.",
        "figure 1(a), section 5.1", FIGURE1, _nearly_all, "level", unit="features", needs=RUN,
        power=_learned,
    ),
    Claim(
        "figure1-reproduced", "simulation",
        "The published curves come out again (here: the mean of all runs is within the "
        "tolerance at every share of wrong captions, in more than half of the curves).",
        "figure 1", FIGURE1, Reproduced(), "count", bound=0.5, needs=RUN,
        unit="of the curves",
        controls=(
            Control("The best two thirds of the runs, as published", Reproduced("best")),
            Control("The published value at the next C_s, which is wrong", Reproduced("neighbour"),
                    least=None, most=SAME, of=Reproduced(beside="neighbour")),
        ),
    ),
    Claim(
        "raw-mixes", "simulation",
        "Neurons trained on raw captions mix spuriously correlated features: in more neurons than "
        "with right captions, the second alignment is at least half of the first and belongs to "
        "the spurious partner.",
        "theorem 4.2", "simulation_mixing", difference("mixed_neurons", "raw", "oracle"),
        bound=MIXED, unit="points", needs=PAIRS, power=_learned,
        controls=(
            Control("Spurious pairs that some neuron mixes, of all",
                    Level(ArmMeasure("mixed_pairs_covered", "raw"), unit="trial"), least=0.5,
                    of=_all_pairs),
        ),
    ),
    Claim(
        "filtered-unmixes", "simulation",
        "Neurons trained on filtered captions learn one feature each: fewer of them than on raw "
        "captions mix spuriously correlated features.",
        "theorem 4.4", "simulation_mixing", difference("mixed_neurons"),
        sign=-1, bound=MIXED, unit="points", needs=PAIRS, power=_learned,
    ),
    *claims_scaling.CLAIMS,
)  # fmt: skip
"""All claims of the study, in the order of their verdicts."""


def scopes(tables: Tables) -> list[tuple[str, Tables]]:
    """Return each preset that was run, with its rows and those of the conditions around it."""
    table = tables.simulation
    return [
        (preset, tables.replace(simulation=where(table, preset=preset)))
        for preset in presets(table)
    ]


def _setting(tables: Tables, confidence: float) -> Mapping[str, Any]:
    """Return the smallest and largest C_s by preset, and the most trials."""
    table = tables.simulation
    of_presets = {name: of_preset(table, name) for name in presets(table)}
    return {
        "ends": {
            name: (float(rows["spurious_probability"].min()),
                   float(rows["spurious_probability"].max()))
            for name, rows in of_presets.items()
        },
        "trials": max((rows["trial"].nunique() for rows in of_presets.values()), default=0),
    }  # fmt: skip


def _reproduced(tables: Tables, confidence: float) -> Mapping[str, Any]:
    """Return, by preset, how many points are within their tolerance: all runs, best, neighbours."""
    counts: dict[str, dict[str, int]] = {}
    for preset, scope in scopes(tables):
        compared = points(figure1(scope.simulation))
        for what in SHOWN:
            values = [(point, effects.shown(point, what)) for point in compared]
            counts.setdefault(preset, {}).update({
                what: sum(point.within(value) for point, value in values),
                f"of_{what}": sum(math.isfinite(value) for _, value in values),
            })  # fmt: skip
    return {"reproduced": counts}


QUESTIONS = (
    Question(
        "purified",
        "In the simulation, do encoders purify fewer features if more captions are wrong?",
        ("raw-degrades", "raw-fails"), "small_purified", _setting, folded=True,
    ),
    Question(
        "mixing", "In the simulation, do wrong captions make neurons mix features?",
        ("raw-mixes", "filtered-unmixes", "neurons-residual"), folded=True,
    ),
    Question(
        "filtering", "In the simulation, does filtering raise zero-shot accuracy?",
        (
            "filtered-accuracy", "filtered-purified_features", "filtered-silhouette", "gap-widens",
            "nearly-all", "captions-repaired", "filtered-succeeds",
        ),
        "small_filtering", _setting,
    ),
    Question(
        "reproduction", "Do the published numbers of the simulation come out again?",
        ("figure1-reproduced",), "small_reproduction", _reproduced, folded=True,
    ),
)  # fmt: skip
"""In the order of the page."""
