"""Asymptotic claims on made-up sweeps over d: powers of d, constants, and what is not a power."""

from __future__ import annotations

from typing import Any

import pytest

from mispair.report.tables import Tables, tidy
from mispair.report.verdicts import Verdict
from mispair.simulation.report import claims_scaling
from tests.simulation.scaling_run import AS_STATED, Laws, sweep


def judged(rows: list[dict[str, Any]], preset: str = "as-written") -> dict[str, Verdict]:
    tables = Tables({"simulation": tidy("simulation", rows)})
    return {v.claim.key: v for v in claims_scaling.judge(tables, preset, 0.95)}


def test_what_the_theorems_state_is_supported() -> None:
    found = judged(sweep(AS_STATED))
    assert {key: verdict.outcome for key, verdict in found.items()} == dict.fromkeys(
        (claim.key for claim in claims_scaling.CLAIMS), "supports"
    )
    assert found["filtered-succeeds"].effect is not None
    assert found["filtered-succeeds"].effect.value == pytest.approx(-1, abs=0.05)
    assert found["raw-fails"].effect is not None
    assert abs(found["raw-fails"].effect.value) < 0.05


@pytest.mark.parametrize(
    ("key", "change", "expected"),
    [
        ("raw-fails", {"failure raw": lambda d: 6 / d}, "contradicts"),
        ("filtered-succeeds", {"failure filtered": lambda d: 0.1}, "no such effect"),
        ("filtered-succeeds", {"failure filtered": lambda d: d / 500}, "contradicts"),
        ("loss-near-optimal", {"gap filtered": lambda d: 0.1}, "no such effect"),
        ("loss-near-optimal", {"gap raw": lambda d: d / 500}, "contradicts"),
        ("captions-repaired", {"wrong": lambda d: 0.2 * d**-0.5}, "contradicts"),
        ("captions-repaired", {"missing": lambda d: 0.1}, "contradicts"),
        ("captions-repaired", {"missing": lambda d: 50 * d**-3.0}, "supports"),
        ("raw-residual", {"residual_share": lambda d: 0.3}, "contradicts"),
        ("filtered-residual", {"residual_share_pure": lambda d: d**-0.75}, "cannot tell"),
    ],
)
def test_what_goes_otherwise_with_d_is_not(key: str, change: Laws, expected: str) -> None:
    assert judged(sweep({**AS_STATED, **change}))[key].outcome == expected


@pytest.mark.parametrize("factor", [0.01, 3.0])
def test_the_level_at_one_d_decides_nothing(factor: float) -> None:
    laws = {name: (lambda d, law=law: factor * law(d)) for name, law in AS_STATED.items()}
    assert {v.outcome for v in judged(sweep(laws)).values()} == {"supports"}


def test_probabilities_of_zero_are_upper_bounds() -> None:
    laws = {**AS_STATED, "wrong": lambda d: 0.02 if d < 40 else 0.0}
    verdict = judged(sweep(laws))["captions-repaired"]
    assert verdict.outcome == "supports"
    assert "upper bounds" in verdict.test


def test_without_the_sweep_the_command_that_runs_it_is_named() -> None:
    for verdict in judged([]).values():
        assert verdict.outcome == "not measured"
        assert claims_scaling.PROFILE in verdict.reason
    for verdict in judged(sweep(AS_STATED), "as-run").values():
        assert verdict.outcome == "not measured"
        assert "redrawn" in verdict.reason


def test_a_bend_and_features_without_a_neuron_limit_what_a_slope_says() -> None:
    laws = {**AS_STATED, "failure filtered": lambda d: 0.02 + abs(d - 60) / 200,
            "unpurified": lambda d: 0.15}  # fmt: skip
    verdict = judged(sweep(laws))["filtered-succeeds"]
    assert set(verdict.limited) == {"One power law", "Features without a neuron"}


def test_a_sweep_with_more_neurons_is_a_control_and_not_mixed_in() -> None:
    flat = {**AS_STATED, "failure filtered": lambda d: 0.1}
    rows = sweep(flat) + sweep(AS_STATED, dimensions=(20, 40, 80), suffix="~4")
    verdict = judged(rows)["filtered-succeeds"]
    assert verdict.outcome == "no such effect"
    control = {c.name: c for c in verdict.controls}["More neurons for each feature"]
    assert control.finding == "does not limit"
    assert verdict.effect == judged(sweep(flat))["filtered-succeeds"].effect


def test_two_dimensions_or_one_trial_decide_nothing() -> None:
    few = judged(sweep(AS_STATED, dimensions=(20, 40)))
    assert {verdict.outcome for verdict in few.values()} == {"not measured"}
    one = judged(sweep(AS_STATED, trials=1))
    assert {verdict.outcome for verdict in one.values()} == {"not measured"}
