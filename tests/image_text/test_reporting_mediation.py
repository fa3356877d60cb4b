"""Whether accuracy follows overlap over arms: made-up arms of which the answer is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from mispair.image_text.report import claims_mediation, mediation
from mispair.image_text.report.matching import at_equal_dose
from mispair.report import style
from mispair.report.tables import Tables, tidy

RATES = (0.0, 0.1, 0.3, 0.8)
RISES = {"pretrained": 0.04, "without-decay": 0.03, "scale-converged": 0.002, "scale-70": 0.06}


def tables(
    slope: float, loss: float, rises: dict[str, float] = RISES, seeds: int = 3, noise: float = 1e-4,
    similar: float | None = None,
) -> Tables:  # fmt: skip
    """Return arms whose accuracy falls by `slope` × rise of overlap + `loss` × C_m.

    With `similar`, the pre-trained start has that scheme as well: the same overlap, and so much
    less accuracy.
    """
    draw = np.random.default_rng(0)
    purity: list[dict[str, Any]] = []
    scores: list[dict[str, Any]] = []
    for start, rise in rises.items():
        for scheme in ("random", *(["similar"] if similar is not None else [])):
            for rate in RATES:
                for seed in range(seeds):
                    if scheme == "similar" and (start != "pretrained" or rate == 0):
                        continue
                    arm = {"start": start, "scheme": scheme, "rate": rate, "seed": seed}
                    moved = rise * rate * (1 + 0.01 * seed)
                    value = 0.9 - slope * moved - loss * rate + noise * draw.standard_normal()
                    value -= (similar or 0.0) if scheme == "similar" else 0.0
                    purity += [
                        {**arm, "tower": tower, "metric": "mean_abs_cosine", "value": 0.05 + moved}
                        for tower in ("text", "image")
                    ]
                    scores.append(
                        {**arm, "evaluation_set": "shapes", "metric": "acc1", "value": value}
                    )
    return Tables({"purity": tidy("purity", purity), "zeroshot": tidy("zeroshot", scores)})


def judged(of: Tables) -> dict[str, Any]:
    return {verdict.claim.key: verdict for verdict in claims_mediation.judge(of, 0.95)}


def test_the_loss_that_goes_with_overlap_is_that_of_a_regression_with_an_intercept_per_rate() -> (
    None
):
    moved = mediation.changes(mediation.points(tables(0.8, 0.02, noise=0.003), "text"))
    for seed, (carried, whole) in mediation.mediated(moved).items():
        part = moved[moved["seed"] == seed]
        rates = [part["rate"] == rate for rate in RATES[1:]]
        design = np.column_stack([part["overlap"], *rates]).astype(float)
        slope = np.linalg.lstsq(design, part["accuracy"].astype(float), rcond=None)[0][0]
        main = part[(part["start"] == "pretrained") & (part["rate"] == 0.8)]
        assert carried == pytest.approx(slope * main["overlap"].item())
        assert whole == pytest.approx(main["accuracy"].item())


def test_a_loss_that_goes_with_overlap_is_found() -> None:
    verdict = judged(tables(slope=1.0, loss=0.0))["accuracy-follows-overlap"]
    assert verdict.outcome == "supports"
    assert verdict.effect.value == pytest.approx(-0.04 * 0.8 * 1.01, rel=0.05)
    assert {c.name: c.finding for c in verdict.controls}["Arms in which the two part"] == (
        "does not limit"
    )


def test_a_loss_that_goes_with_the_rate_alone_is_no_effect_of_overlap() -> None:
    verdict = judged(tables(slope=0.0, loss=0.05))["accuracy-follows-overlap"]
    assert verdict.outcome == "no such effect"
    findings = {control.name: control for control in verdict.controls}
    assert style.START_WORDS["scale-converged"] in findings["Arms in which the two part"].text
    # Within the main arm alone both move with C_m, which is why that shows nothing.
    rho = mediation.within_seed(mediation.points(tables(0.0, 0.05), "text"))["rho"]
    assert (rho < -0.9).all()


def test_arms_that_overlap_more_and_lose_less_contradict() -> None:
    assert judged(tables(-1.0, 0.1))["accuracy-follows-overlap"].outcome == "contradicts"


def test_without_a_loss_nothing_is_carried() -> None:
    verdict = judged(tables(slope=-0.5, loss=0.0))["accuracy-follows-overlap"]
    assert verdict.outcome == "cannot tell"
    assert "does not fall" in verdict.reason


def test_two_arms_are_too_few() -> None:
    few = {name: RISES[name] for name in ("pretrained", "without-decay")}
    assert judged(tables(1.0, 0.0, few))["accuracy-follows-overlap"].outcome == "not measured"
    assert judged(Tables({}))["accuracy-follows-overlap"].outcome == "not measured"
    assert judged(tables(1.0, 0.0, seeds=1))["accuracy-follows-overlap"].outcome == "cannot tell"


@pytest.mark.parametrize(
    ("less", "outcome"), [(0.0, "supports"), (0.05, "contradicts"), (None, "not measured")]
)
def test_schemes_are_compared_at_equal_overlap(less: float | None, outcome: str) -> None:
    assert judged(tables(0.5, 0.0, similar=less))["overlap-fixes-accuracy"].outcome == outcome


def test_the_table_of_arms_begins_with_the_main_one_and_shows_shares_of_its_changes() -> None:
    table = claims_mediation.arms(tables(0.0, 0.05, noise=0.0))
    assert table is not None
    by_arm = {row[0]: row for row in table.rows}
    assert len(by_arm) == len(RISES)
    assert table.rows[0][3] == table.rows[0][7] == "1.00"
    shares = sorted(row[3] for row in table.rows)
    assert shares == sorted(f"{rise / 0.04:.2f}" for rise in RISES.values())
    assert {row[7] for row in table.rows} == {"1.00"}
    assert claims_mediation.arms(Tables({})) is None


def test_equal_doses_are_interpolated_within_a_seed_and_never_extrapolated() -> None:
    reference = pd.DataFrame(
        [(0.0, 0, 0.0, 1.0), (0.5, 0, 2.0, 3.0), (0.8, 0, 4.0, 3.5), (0.0, 1, 0.0, 9.0)],
        columns=["rate", "seed", "dose", "value"],
    )
    series = pd.DataFrame(
        [(0.0, 0, 0.0, 1.0), (0.3, 0, 1.0, 2.5), (0.5, 0, 3.0, 3.0), (0.8, 0, 4.1, 0.0),
         (0.3, 1, 0.0, 1.0), (0.3, 2, 0.0, 1.0)],
        columns=["rate", "seed", "dose", "value"],
    )  # fmt: skip
    differences = at_equal_dose(series, reference)
    assert differences.values.tolist() == [[0.3, 0.0, 0.5], [0.5, 0.0, -0.25]]
