"""Verdicts and tables of the repair on made-up arms whose effects are known."""

from __future__ import annotations

import numpy as np
import pytest

from mispair.repair.report import claims, figures, measures, pages
from mispair.report import multiplicity, verdicts
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables, tidy

ACCURACY = {"raw": 0.80, "oracle": 0.89, "factor": 0.87, "drop": 0.81, "all": 0.86,
            "second-round": 0.87}  # fmt: skip
OVERLAP = {"raw": 0.12, "oracle": 0.08, "factor": 0.09, "drop": 0.11, "all": 0.1,
           "second-round": 0.09}  # fmt: skip
SEEDS = range(5)


def made_up(
    accuracy: dict[str, float] = ACCURACY, overlap: dict[str, float] = OVERLAP, rate: float = 0.8
) -> Tables:
    """Return tables of arms; differences between them have a standard error of 0.005."""
    noise = np.random.default_rng(0).normal(0, 0.001, 5)
    arms = [
        {"rule": rule, "scheme": "random", "rate": rate, "seed": seed, "metric": "acc1",
         "evaluation_set": "one", "protocol": "clip_benchmark", "value": value}
        for rule, value in accuracy.items() for seed in SEEDS
    ]  # fmt: skip
    arms += [
        {"rule": rule, "scheme": "random", "rate": rate, "seed": seed, "tower": tower,
         "metric": "mean_abs_cosine", "value": value + (1 + len(rule) / 20) * noise[seed]}
        for rule, value in overlap.items() for seed in SEEDS for tower in ("text", "image")
    ]  # fmt: skip
    pairs = [("raw", "oracle"), ("factor", "raw"), ("factor", "drop"), ("factor", "all"),
             ("second-round", "factor"), ("random-replaced", "raw"),
             ("trusted-alone", "raw")]  # fmt: skip
    differences = [
        {"rule": rule, "reference": other, "scheme": "random", "rate": rate,
         "protocol": "clip_benchmark", "metric": "acc1_difference_of_all_sets",
         "value": accuracy[rule] - accuracy[other], "error": 0.005, "freedom": 40, "n": 1000}
        for rule, other in pairs if rule in accuracy and other in accuracy
    ]  # fmt: skip
    ledger = [
        {"rule": rule, "scheme": "random", "rate": rate, "seed": seed, **row}
        for rule in accuracy
        for seed in SEEDS
        for row in (
            {"metric": "read", "value": 10}, {"metric": "kept", "value": 4},
            {"metric": "replaced", "value": 6}, {"metric": "dropped", "value": 0},
            {"metric": "failed", "value": 0},
            {"metric": "pairs", "before": "wrong", "after": "right", "value": 6},
            {"metric": "pairs", "before": "right", "after": "right", "value": 4},
            {"metric": "precision", "captions": "repaired", "value": 0.9, "n": 40},
            {"metric": "recall", "captions": "repaired", "value": 0.8, "n": 40},
        )
    ]  # fmt: skip
    return Tables(
        {
            "repaired_arms": tidy("repaired_arms", arms),
            "repair_differences": tidy("repair_differences", differences),
            "repairs": tidy("repairs", ledger),
        }
    )


def judged(tables: Tables) -> dict[str, verdicts.Verdict]:
    return {verdict.claim.key: verdict for verdict in claims.judge(tables, 0.95)}


def test_nothing_measured_is_no_verdict() -> None:
    outcomes = {verdict.outcome for verdict in claims.judge(Tables({}), 0.95)}
    assert outcomes == {verdicts.UNMEASURED}
    assert isinstance(figures.repair_by_rule(Tables({})), Hole)
    assert pages.PAGES.tables(Tables({}), [], 0.95) == []


def test_known_effects_are_judged_as_they_are() -> None:
    outcomes = {key: verdict.outcome for key, verdict in judged(made_up()).items()}
    assert outcomes["repair-accuracy"] == verdicts.SUPPORTS
    assert outcomes["repair-overlap"] == verdicts.SUPPORTS
    assert outcomes["repair-replacing"] == verdicts.SUPPORTS
    assert outcomes["repair-filter-not-worse"] == verdicts.SUPPORTS
    assert outcomes["repair-second-round"] == verdicts.ABSENT
    assert outcomes["repair-harmless"] == verdicts.UNMEASURED


@pytest.mark.parametrize(
    ("rule", "value", "claim", "outcome"),
    [
        ("factor", 0.74, "repair-accuracy", verdicts.CONTRADICTS),
        ("factor", 0.80, "repair-accuracy", verdicts.ABSENT),
        ("factor", 0.81, "repair-filter-not-worse", verdicts.CONTRADICTS),
        ("drop", 0.87, "repair-replacing", verdicts.ABSENT),
        ("drop", 0.93, "repair-replacing", verdicts.CONTRADICTS),
        ("second-round", 0.91, "repair-second-round", verdicts.SUPPORTS),
    ],
)
def test_each_claim_can_come_out_either_way(
    rule: str, value: float, claim: str, outcome: str
) -> None:
    assert judged(made_up({**ACCURACY, rule: value}))[claim].outcome == outcome


def test_where_wrong_captions_cost_nothing_nothing_is_given_back() -> None:
    free = judged(made_up({**ACCURACY, "oracle": ACCURACY["raw"]}))
    assert free["repair-accuracy"].outcome == verdicts.UNDECIDED
    assert np.isnan(free["repair-accuracy"].smallest)
    assert free["repair-overlap"].outcome == verdicts.SUPPORTS


def test_overlap_that_dropping_restores_too_limits_the_claim() -> None:
    assert judged(made_up())["repair-overlap"].limited == ()
    as_well = judged(made_up(overlap={**OVERLAP, "drop": 0.09}))
    assert as_well["repair-overlap"].limited == ("Pairs dropped in place of replaced",)


def test_a_gain_that_needs_no_filter_limits_the_claim() -> None:
    """Here as many captions replaced at random gain as much, and the trusted pairs alone less."""
    table = made_up({**ACCURACY, "random-replaced": 0.87, "trusted-alone": 0.81})
    found = {control.name: control.finding for control in judged(table)["repair-accuracy"].controls}
    assert found == {
        "As many captions replaced at random": "limits",
        "Trusted pairs alone": "does not limit",
    }
    controls = judged(made_up())["repair-accuracy"].controls
    assert {control.finding for control in controls} == {"not measured"}


def test_right_captions_are_judged_at_rate_0() -> None:
    whole, clean = made_up(), made_up({"raw": 0.89, "factor": 0.889}, {}, rate=0.0)
    both = whole.replace(
        repaired_arms=tidy("repaired_arms", [*whole.repaired_arms.to_dict("records"),
                                             *clean.repaired_arms.to_dict("records")]),
        repair_differences=tidy(
            "repair_differences", [*whole.repair_differences.to_dict("records"),
                                   *clean.repair_differences.to_dict("records")]),
    )  # fmt: skip
    assert judged(both)["repair-harmless"].outcome == verdicts.SUPPORTS


def test_the_correction_for_many_claims_leaves_tests_against_a_bound_alone() -> None:
    """Arms that are equal are no worse; their p value against zero says nothing of that."""
    equal = made_up({**ACCURACY, "all": ACCURACY["factor"]})
    corrected = multiplicity.adjusted([*judged(equal).values()], 0.05)
    (verdict,) = [one for one in corrected if one.claim.key == "repair-filter-not-worse"]
    assert verdict.outcome == verdicts.SUPPORTS


def test_tables_and_figures_hold_the_numbers() -> None:
    tables = made_up()
    arms, ledger, named = pages.PAGES.tables(tables, [], 0.95)
    by_rule = {row[0]: row for row in ledger.rows}
    assert by_rule[measures.LABELS["factor"]][1:] == ("10", "4", "6", "0", "0", "6", "0")
    assert arms.rows[0][0] == measures.LABELS["raw"]
    assert named.rows[0][2:] == ("0.900", "0.800")
    for draw in (figures.repair_by_rule, figures.repair_ledger):
        drawing = draw(tables)
        assert isinstance(drawing, Drawing)
    shares = drawing.data.set_index(["rule", "cell"])["value"]
    assert shares["factor", "wrong, repaired"] == pytest.approx(0.6)
