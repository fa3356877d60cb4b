"""Claims on other training data, encoders and noise, on made-up arms, bridge and grid."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from mispair.report.tables import Tables, tidy
from mispair.report.verdicts import Verdict
from mispair.simulation.report import claims_arms


def runs(
    levels: dict[str, float], trials: int = 6, c: float = 0.3, **about: Any
) -> list[dict[str, Any]]:
    rng = np.random.default_rng(list(str(about).encode()))
    whole = {"condition": "as-written", "kind": "preset", "preset": "as-written", **about}
    return [
        {**whole, "metric": "accuracy", "trained_on": arm, "trial": trial, "value": value
         + 0.005 * rng.normal(), "spurious_probability": 0.0 if arm == "high-quality-only" else c}
        for trial in range(trials) for arm, value in levels.items()
    ]  # fmt: skip


def cells(
    accuracy: dict[tuple[str, float], tuple[float, float]], schedule: str = "practical"
) -> list[dict[str, Any]]:
    """Return cells of the grid from raw and filtered accuracy by misalignment and noise."""
    rows: list[dict[str, Any]] = []
    for (misalignment, noise), (raw, filtered) in accuracy.items():
        rows += runs(
            {"raw": raw, "filtered": filtered}, condition=f"grid~{noise}~{misalignment}~{schedule}",
            kind="grid", misalignment=misalignment, image_noise_variance=noise,
            bias_schedule=schedule,
        )  # fmt: skip
    return rows


def judged(rows: list[dict[str, Any]], preset: str = "as-written") -> dict[str, Verdict]:
    tables = Tables({"simulation": tidy("simulation", rows)})
    return {v.claim.key: v for v in claims_arms.judge(tables, preset, 0.95)}


@pytest.mark.parametrize(
    ("replaced", "expected"),
    [(0.85, "supports"), (0.90, "supports"), (0.91, "supports"), (0.95, "contradicts"),
     (0.92, "cannot tell")],
)  # fmt: skip
def test_filtering_is_held_to_replacing_all_less_a_margin(replaced: float, expected: str) -> None:
    rows = runs({"raw": 0.8, "filtered": 0.9, "replace-all": replaced})
    assert judged(rows)["filtering-not-worse"].outcome == expected


@pytest.mark.parametrize(
    ("alone", "expected"),
    [(0.8, "supports"), (0.9, "no such effect"), (0.95, "contradicts")],
)
def test_s_h_alone_is_compared_with_filtered(alone: float, expected: str) -> None:
    verdict = judged(runs({"raw": 0.8, "filtered": 0.9, "high-quality-only": alone}))[
        "high-quality-alone"
    ]
    assert verdict.outcome == expected
    assert verdict.smallest == pytest.approx(0.04 / 3)


@pytest.mark.parametrize(("pairs", "expected"), [(0.8, "supports"), (0.7, "contradicts")])
def test_pairs_and_groups_are_the_same_or_not(pairs: float, expected: str) -> None:
    cell = {("groups", n): (0.8, 0.9) for n in (0.02, 0.005)} | {
        ("partner", n): (pairs, 0.9) for n in (0.02, 0.005)
    }
    verdict = judged(cells(cell))["group-size"]
    assert verdict.outcome == expected
    assert verdict.effect is not None
    assert verdict.effect.value == pytest.approx(0.8 - pairs, abs=0.01)
    assert verdict.effect.n == 6  # a trial counts once, whatever the number of noises
    other = cells(cell, schedule="zero")
    assert judged(other)["group-size"].outcome == "not measured"


@pytest.mark.parametrize(("filtered", "expected"), [(0.9, "supports"), (0.8, "no such effect")])
def test_low_noise_is_the_lowest_of_the_grid(filtered: float, expected: str) -> None:
    cell = {("groups", 0.02): (0.8, 0.9), ("groups", 0.0004): (0.8, filtered)}
    assert judged(cells(cell))["low-noise"].outcome == expected
    alone = judged(cells({("groups", 0.02): (0.8, 0.9)}))["low-noise"]
    assert alone.outcome == "not measured"


def test_the_plain_relu_is_the_bridge_of_one_preset_and_the_runs_of_the_other() -> None:
    bridge = runs({"raw": 0.8, "filtered": 0.9}, condition="bridge~encoder", kind="bridge")
    assert judged(bridge)["plain-relu"].outcome == "supports"
    own = runs({"raw": 0.8, "filtered": 0.7}, condition="as-run", preset="as-run")
    assert judged(own, "as-run")["plain-relu"].outcome == "contradicts"
    assert judged(bridge, "as-run")["plain-relu"].outcome == "not measured"


def test_what_was_not_run_names_the_configuration_that_runs_it() -> None:
    for preset in ("as-written", "as-run"):
        rows = runs({"raw": 0.8, "filtered": 0.9}, condition=preset, preset=preset)
        for key, verdict in judged(rows, preset).items():
            if key == "plain-relu" and preset == "as-run":
                continue
            assert verdict.outcome == "not measured"
            assert "config/simulation-as-" in verdict.reason


def test_every_claim_is_judged_once_for_each_preset() -> None:
    for preset, rows in itertools.product(("as-written", "as-run"), ([], runs({"raw": 0.8}))):
        assert tuple(judged(rows, preset)) == tuple(claim.key for claim in claims_arms.CLAIMS)
