"""The claim that mean |cos| measures purity, on neurons whose relation is planted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mispair.core.seeds import generator
from mispair.evaluation.report import claims_construct as construct
from mispair.report.pages.content import judge
from mispair.report.tables import Tables, tidy

NEURONS = 128


def neurons(slope: float, seed: int = 0, count: int = NEURONS) -> pd.DataFrame:
    """Return neurons whose measures follow −slope times their overlap, and noise."""
    draw = generator("construct", slope, seed)
    columns: dict[tuple[str, str], np.ndarray] = {}
    for tower in construct.TOWERS:
        overlap = draw.standard_normal(count)
        columns[tower, "overlap"] = overlap
        for measure in construct.MEASURES:
            columns[tower, measure] = draw.standard_normal(count) - slope * overlap
    return pd.DataFrame(columns)


def rows(
    table: pd.DataFrame, rho: float = 0.0, gain: float = 0.0, rotations: int = 20
) -> list[dict[str, Any]]:
    """Return rows of `measure_semantics` for the neurons and their null."""
    result: list[dict[str, Any]] = []
    names = {"semantic_purity": "best_correlation", "selectivity": "selectivity"}
    for tower in construct.TOWERS:
        shared = {"start": "untouched", "tower": tower, "seed": 0}
        for measure, metric in names.items():
            # Measures are compared by rank and without sign, so they are moved above zero.
            values = stats.rankdata(table[tower, measure]) / 1000
            result += [
                {**shared, "basis": "original", "metric": metric, "neuron": neuron, "value": value,
                 "overlap": table[tower, "overlap"][neuron], "feature": "f"}
                for neuron, value in enumerate(values)
            ]  # fmt: skip
            limits = {"low": -0.1, "high": 0.1, "below": 0.5, "rotations": rotations}
            result += [
                {**shared, "basis": "rotated", "metric": f"{measure}_by_overlap", "value": rho,
                 "deviation": 0.05, **limits},
                {**shared, "basis": "rotated", "metric": f"mean_{measure}", "value": 0.4,
                 "deviation": 0.01, **limits},
                {**shared, "basis": "original", "metric": f"mean_{measure}", "value": 0.4 + gain},
            ]  # fmt: skip
    return result


def tables(table: pd.DataFrame, **null: float) -> Tables:
    purity = [{"start": "untouched", "metric": "mean_abs_cosine", "tower": "text", "value": 0.1}]
    return Tables(
        {
            "semantics": tidy("semantics", rows(table, **null)),  # type: ignore[arg-type]
            "purity": tidy("purity", purity),
        }
    )


@pytest.mark.parametrize(
    ("slope", "outcome"), [(1.0, "supports"), (0.0, "no such effect"), (-1.0, "contradicts")]
)
def test_a_planted_relation_is_judged_by_its_sign_and_its_absence(slope, outcome):
    (verdict,) = construct.judge(tables(neurons(slope)), 0.95)
    assert verdict.outcome == outcome
    assert verdict.effect is not None
    assert (verdict.effect.n, verdict.effect.unit) == (NEURONS, "neuron")
    assert verdict.smallest == construct.SMALLEST
    assert len(verdict.parts) == 4


def test_few_neurons_cannot_tell():
    (verdict,) = construct.judge(tables(neurons(0.0, count=12)), 0.95)
    assert verdict.outcome == "cannot tell"


def test_it_is_the_first_claim_and_a_primary_one():
    first = judge(tables(neurons(0.0)), 0.95)[0]
    assert first.claim.key == "construct-validity"
    assert first.claim.primary


def test_correlations_are_those_of_scipy():
    table = neurons(0.5)
    for (tower, measure), rho in construct.neurons_by_part(table).items():
        reference = stats.spearmanr(table[tower, "overlap"], table[tower, measure])
        assert rho == pytest.approx(reference.statistic)
        effect = construct.fisher(rho, NEURONS, 0.95)
        assert effect.low < rho < effect.high
        # Near zero the interval is that of a normal approximation.
        assert effect.p < 0.001


def test_the_size_of_the_test_is_the_nominal_one():
    """Without a relation 5 % of the data sets have p <= 0.05, and half as many each sign."""
    effects = [construct.mean_rank_correlation(neurons(0.0, seed), 0.95) for seed in range(200)]
    rejected = np.mean([effect.p <= 0.05 for effect in effects])
    # Four standard errors of a share of 5 % of 200.
    assert abs(rejected - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 200)
    spread = np.std([effect.value for effect in effects])
    assert spread == pytest.approx(1 / np.sqrt(4 * (NEURONS - 1)), rel=0.2)


def test_neurons_are_resampled_with_both_towers():
    """Towers that repeat each other tell no more than one of them."""
    table = neurons(0.0, 1)
    double = table.copy()
    for name in ("overlap", *construct.MEASURES):
        double["image", name] = table["text", name]
    single = table[["text"]]
    one, two = (construct.mean_rank_correlation(each, 0.95) for each in (single, double))
    assert two.value == pytest.approx(one.value)
    assert (two.high - two.low) == pytest.approx(one.high - one.low)


def test_controls_name_rotated_bases_and_the_lack_of_an_own_basis():
    def findings(**null: float) -> dict[str, str]:
        (verdict,) = construct.judge(tables(neurons(1.0), **null), 0.95)
        return {control.name: control.finding for control in verdict.controls}

    assert findings() == {"Rotated bases": "limits", "Own basis against random ones": "limits"}
    assert findings(gain=0.1)["Own basis against random ones"] == "does not limit"


@pytest.mark.parametrize(
    ("gain", "expected"), [(0.0, False), (0.1, True), (-0.1, False), (0.01, False)]
)
def test_the_own_basis_is_one_more_rotation_under_the_null(gain, expected):
    measured = tables(neurons(0.0), gain=gain)
    effect = construct.own_basis_better_than_random(measured, "text", 0.95)
    assert effect.value == pytest.approx(gain)
    assert (effect.n, effect.unit) == (20, "rotated basis")
    # The prediction interval of one more draw.
    half = stats.t.ppf(0.975, 19) * 0.01 * np.sqrt(1 + 1 / 20)
    assert effect.high - effect.value == pytest.approx(half)
    assert construct.own_basis_is_better(measured, "text") is expected


def test_without_truth_nothing_is_claimed():
    nothing = Tables({})
    assert construct.judge(nothing, 0.95)[0].outcome == "not measured"
    assert np.isnan(construct.own_basis_better_than_random(nothing, "text", 0.95).value)
    assert construct.own_basis_is_better(nothing, "text") is None
    one = tables(neurons(0.0), rotations=1)
    assert construct.own_basis_is_better(one, "text") is None
