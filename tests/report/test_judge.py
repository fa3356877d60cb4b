"""The five rules, and the judge that turns a claim and tables into a verdict of numbers."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mispair.report import texts
from mispair.report.claims import Claim, Control, MeasuredClaim, PartEffect
from mispair.report.judge import PRIMARY, SMALL, Verdict, judge
from mispair.report.measures import (
    NO_RESPONSE,
    Arms,
    Ends,
    Every,
    Level,
    Responds,
    Trend,
    of_sweep,
    rows,
    share_of,
)
from mispair.report.pages import claims_table
from mispair.report.pages.content import judged
from mispair.report.pages.study_pages import every_pages
from mispair.report.rules import OUTCOMES, decide, p_of
from mispair.report.statistics import Effect, effect_of_interval, effect_of_mean, unknown_effect
from mispair.report.tables import Tables, tidy

NO_TABLES = Tables({})


def effect(value: float, error: float = 0.1, n: int = 5) -> Effect:
    return Effect(value, error, n - 1, 2 * stats.t.sf(abs(value) / error, n - 1), n, "seed")


def claim(measured: MeasuredClaim, **settings) -> Claim:
    fixed = {"key": "a-claim", "study": "image_text", "sentence": "It rises.", "paper": "here",
             "figure": "figure", "bound": 1.0}  # fmt: skip
    return Claim(**fixed | settings, measure=lambda *_: measured)


def verdict_on(measured: MeasuredClaim | Effect, **settings) -> Verdict:
    """Return the verdict on a claim that measured this."""
    whole = MeasuredClaim(measured) if isinstance(measured, Effect) else measured
    return judge(claim(whole, **settings), NO_TABLES, 0.95)


@pytest.mark.parametrize(
    ("value", "error", "outcome", "reason"),
    [
        (2.0, 0.1, "supports", "size shown"),  # the lower limit 1.79 reaches 1
        (1.1, 0.1, "direction only", "size open"),  # 0.89 to 1.31
        (0.5, 0.1, "direction only", "smaller"),  # tight, above zero, below the bound
        (0.1, 0.1, "no such effect", "equivalent"),
        (-0.5, 0.1, "no such effect", "equivalent"),  # the claimed sign is not shown
        (-2.0, 0.1, "contradicts", "opposite"),
        (-1.1, 0.1, "cannot tell", "opposite, size open"),
        (0.5, 0.6, "cannot tell", "either sign"),
    ],
)
def test_an_effect_is_compared_with_the_smallest_one(value, error, outcome, reason):
    assert decide("effect", effect(value, error), 1, 1.0, 0.05) == (outcome, reason)
    mirrored = decide("effect", effect(-value, error), -1, 1.0, 0.05)
    assert mirrored == (outcome, reason)


@pytest.mark.parametrize(
    ("rule", "value", "bound", "outcome"),
    [("equivalence", 0.1, 1.0, "supports"), ("equivalence", 0.9, 1.0, "cannot tell"),
     ("equivalence", 2.0, 1.0, "contradicts"), ("level", 1.5, 1.0, "supports"),
     ("level", 1.1, 1.0, "cannot tell"), ("level", 0.5, 1.0, "contradicts"),
     ("level", -0.5, -1.0, "supports")],
)  # fmt: skip
def test_equivalence_and_levels_use_one_sided_limits(rule, value, bound, outcome):
    assert decide(rule, effect(value), 1, bound, 0.05)[0] == outcome
    p = p_of(rule, effect(value), 1, bound)
    assert (p <= 0.05) == (outcome != "cannot tell" and not (rule == "equivalence" and value > 1))


@pytest.mark.parametrize(("held", "of"), [(8, 8), (7, 8), (3, 8), (1, 8), (0, 8)])
def test_counts_are_tested_by_the_exact_binomial_test(held, of):
    above = stats.binomtest(held, of, 2 / 3, "greater").pvalue
    below = stats.binomtest(held, of, 2 / 3, "less").pvalue
    expected = "supports" if above <= 0.05 else "contradicts" if below <= 0.05 else "cannot tell"
    measured = share_of(held, of)
    assert decide("count", measured.effect, 1, 2 / 3, 0.05)[0] == expected
    assert p_of("count", measured.effect, 1, 2 / 3) == pytest.approx(min(above, below))


def test_trends_need_two_replicates_and_a_small_p():
    rho = replace(unknown_effect(-0.8, 3, "seed"), p=0.01)
    assert decide("trend", rho, -1, math.nan, 0.05)[0] == "supports"
    assert decide("trend", rho, 1, math.nan, 0.05)[0] == "contradicts"
    assert decide("trend", replace(rho, p=0.2), -1, math.nan, 0.05)[0] == "cannot tell"
    assert decide("trend", replace(rho, n=1), -1, math.nan, 0.05)[0] == "cannot tell"


def test_without_a_spread_nothing_is_decided():
    for values, reason in (([1.0], "one replicate"), ([1.0, 1.0], "no spread")):
        found = decide("effect", effect_of_mean(values, 0.95, "seed"), 1, 0.5, 0.05)
        assert found == ("cannot tell", reason)
    assert decide("effect", unknown_effect(math.nan, 0, "seed"), 1, 0.5, 0.05)[0] == "not measured"


@pytest.mark.parametrize("primary", [False, True])
def test_without_a_test_there_is_no_p_value(primary):
    verdict = verdict_on(unknown_effect(2.0, 1, "seed"), primary=primary)
    assert verdict.reason == "one replicate"
    assert math.isnan(verdict.corrected_p)


@pytest.mark.parametrize(
    ("n", "decided"), [(9, ("cannot tell", "gate")), (0, ("not measured",) * 2)]
)
def test_a_condition_is_named_where_it_leaves_the_effect_unknown(n, decided):
    """What nothing was measured of is missing, whatever the condition."""
    measured = MeasuredClaim(unknown_effect(math.nan, n, "seed"), gate="refused")
    verdict = verdict_on(measured)
    assert (verdict.outcome, verdict.reason) == decided


def test_primary_claims_have_a_fixed_correction():
    """The same numbers have the same verdict, whatever else the run has; five have α / 5."""
    assert PRIMARY == sum(one.primary for pages in every_pages() for one in pages.claims) == 5
    measured = MeasuredClaim(effect(2.0, 0.55))  # p = .022
    secondary = verdict_on(measured)
    primary = verdict_on(measured, primary=True)
    assert (secondary.outcome, primary.outcome) == ("direction only", "cannot tell")
    assert primary.corrected_p == pytest.approx(5 * secondary.corrected_p)
    assert primary.alone == secondary.outcome == secondary.alone
    assert texts.shared("correction", secondary) == ""
    named = texts.shared("correction", primary)
    assert named.startswith(secondary.outcome)
    assert f" {PRIMARY} " in named


@pytest.mark.parametrize(
    ("value", "error", "near"),
    [(2.0, 0.1, False), (1.19, 0.02, True), (1.25, 0.01, False), (0.85, 0.02, True),
     (3.0, 1.08, True), (-1.1, 0.02, True), (1.5, 0.2, True), (0.5, 0.15, True),
     (0.1, 0.45, True), (-0.1, 0.45, True), (0.1, 0.9, False)],
)  # fmt: skip
def test_verdicts_near_the_line_are_marked(value, error, near):
    """The p value is within a factor 2 of α, or estimate or deciding limit near the bound."""
    verdict = verdict_on(effect(value, error))
    by_p = 0.025 <= effect(value, error).p <= 0.1
    limits = effect(value, error).limits(0.05)
    if verdict.outcome == "cannot tell":  # no such effect with a slightly larger bound
        limits = (max(limits, key=abs),)
    by_size = any(abs(abs(each) - 1) <= 0.2 for each in (value, *limits))
    assert verdict.near == near == (by_p or by_size)


@pytest.mark.parametrize(("value", "outcome"), [(2.0, "supports"), (-2.0, "contradicts")])
def test_what_goes_the_other_way_forbids_both_signs(value, outcome):
    """Contradicts has the standard of supports."""
    whole, other = MeasuredClaim(effect(value)), PartEffect(effect(-value / 4))
    for where in ("rates", "sets"):
        for part, expected in ((PartEffect(whole.effect), outcome), (other, "cannot tell")):
            measured = replace(whole, **{where: {0.1: part}})
            assert verdict_on(measured).outcome == expected


@pytest.mark.parametrize(
    ("rule", "measured", "outcome", "near"),
    [
        ("level", effect(0.55, 0.05), "cannot tell", True),
        ("level", effect(0.3, 0.3), "cannot tell", False),
        ("level", effect(0.65, 0.01), "supports", False),
        ("count", unknown_effect(0.7, 20, "run"), "cannot tell", True),
        ("count", unknown_effect(0.8, 5, "run"), "cannot tell", False),
        ("count", unknown_effect(0.7, 200, "run"), "supports", False),
    ],
)
def test_an_open_level_or_count_is_near_the_line_if_its_estimate_is(rule, measured, outcome, near):
    verdict = verdict_on(measured, rule=rule, bound=0.6)
    assert not 0.025 <= verdict.p <= 0.1
    assert (verdict.outcome, verdict.near) == (outcome, near)


def test_a_rate_of_the_opposite_sign_forbids_support():
    good, bad = PartEffect(effect(2.0)), PartEffect(effect(-0.5))
    supported = MeasuredClaim(effect(2.0), rates={0.1: good, 0.8: good})
    assert verdict_on(supported).outcome == "supports"
    verdict = verdict_on(replace(supported, rates={0.1: bad, 0.8: good}))
    assert (verdict.outcome, verdict.reason) == ("cannot tell", "a rate goes the other way")
    assert [part.outcome for part in verdict.rates] == ["no such effect", "supports"]


def test_a_mean_over_sets_needs_most_sets():
    good, bad = PartEffect(effect(3.0)), PartEffect(effect(-1.0))
    for against, outcome in ((1, "supports"), (2, "cannot tell")):
        sets = {str(number): bad if number < against else good for number in range(4)}
        assert verdict_on(MeasuredClaim(effect(2.0), sets=sets)).outcome == outcome


@pytest.mark.parametrize("rule", ["effect", "equivalence", "level"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("outcome", ["supports", "cannot tell"])
def test_of_equally_weak_parts_the_nearest_to_the_bound_decides(rule, sign, outcome):
    """An estimate whose error is largest is not hidden by the first part."""
    error = 0.1 if outcome == "supports" else 2.0
    values = {"effect": (5, 2, 3), "level": (5, 2, 3), "equivalence": (0.1, 0.4, 0.2)}[rule]
    for order in itertools.permutations(values):
        parts = {str(value): MeasuredClaim(effect(sign * value, error)) for value in order}
        parts = {
            name: replace(each, effect=replace(each.effect, p=0.5)) if error == 2.0 else each
            for name, each in parts.items()
        }
        bound = sign * 1.0 if rule == "level" else 1.0
        of_claim = claim(MeasuredClaim(parts=parts), rule=rule, sign=sign, bound=bound)
        verdict = judge(of_claim, NO_TABLES, 0.95)
        assert {part.outcome for part in verdict.parts} == {outcome}
        assert verdict.decided_by == str(values[1])


def test_a_claim_on_every_part_has_its_weakest_outcome():
    parts = {"text": MeasuredClaim(effect(0.5), first=1.0),
             "image": MeasuredClaim(effect(3.0), first=2.0)}  # fmt: skip
    verdict = verdict_on(MeasuredClaim(parts=parts))
    assert (verdict.outcome, verdict.decided_by) == ("direction only", "text")
    assert (verdict.effect.value, verdict.measured.first) == (0.5, 1.0)
    assert [part.outcome for part in verdict.parts] == ["direction only", "supports"]


@pytest.mark.parametrize(
    ("rule", "value", "alone", "of_two"),
    [
        ("effect", 0.85, "smaller", "size open"),
        ("effect", -0.85, "equivalent", "opposite, size open"),
        ("effect", -1.15, "opposite", "opposite, size open"),
        ("effect", 1.15, "size shown", "size shown"),
        ("equivalence", 1.15, "opposite", "open"),
        ("equivalence", 0.85, "equivalent", "equivalent"),
        ("level", 0.85, "against", "open"),
        ("level", 1.15, "as claimed", "as claimed"),
    ],
)
def test_each_part_weakens_a_claim_at_its_share_of_alpha(rule, value, alone, of_two):
    """What supports a claim on every part is shown by all of them, so it needs no correction."""
    part = MeasuredClaim(Effect(value, 0.08, math.inf, 0.0, 9, "seed"))  # limits 0.13 and 0.16
    for parts, reason in (({}, alone), ({"text": part, "image": part}, of_two)):
        measured = replace(part, parts=parts)
        assert verdict_on(measured, rule=rule).reason == reason


def test_a_condition_that_is_not_met_decides_nothing():
    verdict = verdict_on(MeasuredClaim(effect(2.0), gate="at chance"))
    assert (verdict.outcome, verdict.reason) == ("cannot tell", "gate")


@pytest.mark.parametrize(
    ("rule", "value", "outcome"),
    [("effect", 2.0, "supports"), ("effect", 0.5, "direction only"),
     ("effect", -2.0, "contradicts"), ("effect", 0.1, "no such effect"),
     ("equivalence", 0.1, "supports"), ("equivalence", 2.0, "contradicts"),
     ("level", 2.0, "supports"), ("level", 0.1, "contradicts"), ("count", 1.0, "cannot tell")],
)  # fmt: skip
def test_a_training_that_changes_nothing_shows_nothing(rule, value, outcome):
    """What it gives as well, a small difference, decides nothing; an effect that is there does."""
    measured = MeasuredClaim(effect(value))
    with_power, without = (
        verdict_on(measured, rule=rule, power=lambda *_, of=name: of)
        for name in ("", "no response")
    )
    assert with_power.outcome == outcome
    small = rule == "level" or (rule, value) in (("effect", 0.1), ("equivalence", 0.1))
    assert without.outcome == ("cannot tell" if small else outcome)
    assert (without.measured.gate == "no response") == small
    assert without.alone == without.outcome


@pytest.mark.parametrize("ends", [0.1, 2.0])
def test_rates_and_sets_need_power_as_the_claim_does(ends):
    """Also where the ends decide by an effect that is there."""
    parts = {"low": PartEffect(effect(0.1)), "high": PartEffect(effect(2.0))}
    measured = MeasuredClaim(effect(ends), rates=parts, sets=parts)
    for name in ("", "no response"):
        verdict = verdict_on(measured, power=lambda *_, of=name: of)
        small = "cannot tell" if name else "no such effect"
        assert verdict.outcome == (small if ends == 0.1 else "supports")
        for shown in (verdict.rates, verdict.sets):
            assert [part.outcome for part in shown] == [small, "supports"]


def test_power_is_computed_once_for_all_claims_that_share_it():
    """And never taken from another function of the same name."""
    calls = []

    def condition(answer):
        def power(tables, confidence):
            calls.append(answer)
            return answer

        return power

    tables, measured = Tables({}), MeasuredClaim(effect(0.1))
    for power, outcome in ((condition(""), "no such effect"), (condition("none"), "cannot tell")):
        for key in ("one", "two"):
            shared = replace(claim(measured, power=power), key=key)
            assert judge(shared, tables, 0.95).outcome == outcome
    assert calls == ["", "none"]


def test_claims_that_need_no_power_are_named_with_the_reason():
    page = Path("docs/explanation/statistics.md").read_text(encoding="utf-8")
    for study in every_pages():
        for one in study.claims:
            assert one.power or one.rule not in SMALL or f"`{one.key}`" in page, one.key
            assert not (one.power and f"| `{one.key}`" in page), one.key


@pytest.mark.parametrize(
    ("value", "error", "bound", "there"),
    [
        (2.0, 0.1, math.nan, True),
        (-2.0, 0.1, math.nan, True),
        (0.9, 0.1, math.nan, True),  # it may reach 1
        (0.5, 0.1, math.nan, False),  # significant, and too small
        (0.5, 0.1, 0.4, True),  # what the measurement gives counts
        (0.1, 9.0, math.nan, False),
        (math.nan, 0.1, math.nan, False),
    ],
)
def test_a_run_responds_if_some_effect_is_there(value, error, bound, there):
    measured = MeasuredClaim(effect(value, error), bound)
    small = MeasuredClaim(effect(0.0))
    parts = MeasuredClaim(parts={"text": small, "image": measured})
    for one in (measured, parts):
        responds = Responds(((lambda *_: small, 1.0), (lambda *_, of=one: of, 1.0)))
        assert responds(NO_TABLES, 0.95) == ("" if there else NO_RESPONSE)


@pytest.mark.parametrize(
    ("least", "most", "value", "error", "finding"),
    [
        (1 / 3, None, 2.0, 0.05, "does not limit"),
        (1 / 3, None, 0.1, 0.05, "limits"),
        (1 / 3, None, 0.7, 0.3, "cannot tell"),  # a control without power decides nothing
        (None, 2 / 3, 2.0, 0.05, "limits"),
        (None, 2 / 3, 0.1, 0.05, "does not limit"),
        (0.0, None, -0.5, 0.05, "limits"),
    ],
)
def test_controls_compare_the_share_that_remains(least, most, value, error, finding):
    for sign in (1, -1):
        control = Control(
            "control", lambda *_, v=sign * value: MeasuredClaim(effect(v, error)), least, most
        )
        (found,) = verdict_on(effect(sign * 2.0), sign=sign, controls=(control,)).controls
        assert found.finding == finding
        assert found.share == pytest.approx(value / 2)


def test_controls_of_an_undecided_claim_are_undecided_and_keep_their_numbers():
    control = Control("control", lambda *_: MeasuredClaim(effect(0.1)))
    verdict = verdict_on(effect(0.5, 0.6), controls=(control,))
    assert [(found.finding, round(found.share, 6)) for found in verdict.controls] == [
        ("cannot tell", 0.2)
    ]


def test_a_control_follows_the_part_that_decides():
    by_tower = {"text": MeasuredClaim(effect(0.01, 0.02)), "image": MeasuredClaim(effect(3.0))}
    control = Control("random start", lambda *_: MeasuredClaim(parts=by_tower))
    parts = {"text": MeasuredClaim(effect(0.5)), "image": MeasuredClaim(effect(3.0))}
    verdict = verdict_on(MeasuredClaim(parts=parts), controls=(control,))
    assert (verdict.decided_by, verdict.controls[0].finding) == ("text", "limits")


# Measures ---------------------------------------------------------------------------------------


def purity(values: dict[tuple[float, int], float], **columns) -> list[dict]:
    fixed = {"start": "pretrained", "scheme": "random", "tower": "text", "metric": "m"} | columns
    return [{**fixed, "rate": rate, "seed": seed, "value": value}
            for (rate, seed), value in values.items()]  # fmt: skip


def tables(*parts: list[dict]) -> Tables:
    return Tables({"purity": tidy("purity", [row for part in parts for row in part])})


SWEEP = {(0.0, 0): 1.0, (0.5, 0): 2.0, (0.8, 0): 4.0, (0.0, 1): 1.0, (0.5, 1): 2.1, (0.8, 1): 4.4}
ROWS = rows("purity", start="pretrained", tower="text", metric="m")


def test_the_ends_of_a_sweep_are_compared_within_seeds():
    curve = pd.Series({0.0: 10.0, 0.5: 11.0, 0.8: 16.0})
    measured = Ends(ROWS.select, lambda: curve)(tables(purity(SWEEP)), 0.95)
    expected = stats.ttest_1samp([3.0, 3.4], 0)
    assert measured.effect.value == pytest.approx(3.2)
    assert measured.effect.p == pytest.approx(expected.pvalue)
    assert (measured.effect.low, measured.effect.high) == pytest.approx(
        tuple(expected.confidence_interval(0.95))
    )
    assert (measured.first, measured.last, measured.at) == (1.0, pytest.approx(4.2), (0.0, 0.8))
    assert (measured.published, measured.bound) == (6.0, pytest.approx(2.0))
    assert {rate: part.bound for rate, part in measured.rates.items()} == {
        0.5: pytest.approx(1 / 3), 0.8: pytest.approx(2.0)
    }  # fmt: skip


def test_logs_compare_ratios():
    measured = Ends(ROWS.select, lambda: pd.Series({0.0: 1.0, 0.8: 8.0}), log=True)(
        tables(purity(SWEEP)), 0.95
    )
    assert measured.effect.value == pytest.approx((math.log(4) + math.log(4.4)) / 2)
    assert measured.bound == pytest.approx(math.log(8) / 3)
    assert measured.published_last == pytest.approx(8.0)


def test_a_published_bound_is_that_of_the_whole_curve_outside_its_range():
    effects = {0.9: effect(1.0)}
    measured = of_sweep(effects, 0.0, published=pd.Series({0.0: 0.0, 0.8: -3.0}))
    assert measured.bound == pytest.approx(1.0)
    assert math.isnan(measured.published)


def test_arms_are_paired_and_shared_runs_left_out():
    other = {key: value + (0.5 + 0.1 * key[1] if key[0] else 0.0) for key, value in SWEEP.items()}
    measured = Arms(ROWS.select, ROWS.but(start="other").select)(
        tables(purity(SWEEP), purity(other, start="other")), 0.95
    )
    assert measured.effect.value == pytest.approx(0.55)
    assert [*measured.rates] == [0.5, 0.8]


def test_arms_that_are_equal_at_a_rate_have_no_effect_there():
    other = {key: value + (key[0] == 0.8) * (1 + 0.1 * key[1]) for key, value in SWEEP.items()}
    both = tables(purity(SWEEP), purity(other, start="other"))
    measured = Arms(ROWS.select, ROWS.but(start="other").select, averaged=True)(both, 0.95)
    assert measured.effect.value == pytest.approx(0.525)
    assert measured.rates[0.5].effect.value == 0
    assert Arms(ROWS.select, ROWS.select)(both, 0.95) == MeasuredClaim()


def test_levels_average_within_replicates_and_trends_permute_within_them():
    level = Level(ROWS.select)(tables(purity(SWEEP)), 0.95)
    assert (level.effect.value, level.effect.n) == (pytest.approx(2.41667, abs=1e-4), 2)
    trend = Trend(ROWS.select)(tables(purity(SWEEP)), 0.95)
    assert (trend.effect.value, trend.effect.n) == (pytest.approx(1.0), 2)
    assert trend.effect.p == pytest.approx(2 / 36)


def test_every_part_is_measured():
    both = Every({"text": Ends(ROWS.select), "image": Ends(ROWS.but(tower="image").select)})
    measured = both(tables(purity(SWEEP), purity(SWEEP, tower="image")), 0.95)
    assert [*measured.parts] == ["text", "image"]


def test_only_sets_of_every_point_count():
    row = {"start": "pretrained", "scheme": "random", "metric": "acc1"}
    frame = tidy("zeroshot", [
        {**row, "rate": rate, "seed": 0, "evaluation_set": name, "value": rate + place}
        for rate in (0.0, 0.5) for place, name in enumerate(("a", "b"))
        if (rate, name) != (0.5, "b")
    ])  # fmt: skip
    selected = rows("zeroshot", balanced="evaluation_set", metric="acc1").select(
        Tables({"zeroshot": frame})
    )
    assert selected["value"].tolist() == [0.0, 0.5]


def test_an_asymmetric_interval_keeps_its_limits():
    found = effect_of_interval(0.2, 0.1, 0.5, 100, "pair")
    assert (found.low, found.high) == (pytest.approx(0.1), pytest.approx(0.5))
    inner = found.limits(0.05)
    assert found.low < inner[0] < 0.2 < inner[1] < found.high


def test_correlations_have_limits_on_fishers_scale():
    found = Effect(0.9, 0.3, math.inf, 0.0, 20, "neuron", fisher=True)
    assert found.high == pytest.approx(math.tanh(math.atanh(0.9) + 1.959964 * 0.3))
    assert found.high < 1


# Verdicts as numbers ----------------------------------------------------------------------------


def test_claims_csv_has_every_number():
    control = Control("control", lambda *_: MeasuredClaim(effect(0.1)))
    part = {0.8: PartEffect(effect(2.0), 0.5)}
    one = claim(MeasuredClaim(effect(2.0), rates=part, published=3.0), controls=(control,))
    row = claims_table.frame([judge(one, NO_TABLES, 0.95)], 0.95).iloc[0]
    assert (row["effect"], row["bound"], row["published"]) == (2.0, 1.0, 3.0)
    assert json.loads(row["controls"])[0]["finding"] == "limits"
    assert json.loads(row["rates"])[0] | dict.fromkeys((*LIMITS, "p"), 0) == {
        "at": 0.8, "effect": 2.0, **dict.fromkeys((*LIMITS, "p"), 0), "bound": 0.5,
        "outcome": "supports",
    }  # fmt: skip


LIMITS = ("low", "high", "shown_low", "shown_high")


@pytest.mark.parametrize(("primary", "level"), [(False, 0.95), (True, 0.99)])
def test_each_interval_of_a_verdict_is_at_the_level_that_judges_it(primary, level):
    """Also in the table, next to those at the confidence of the run."""
    found = effect(2.0)
    part = {0.8: PartEffect(found, 0.5)}
    whole = MeasuredClaim(found, rates=part, sets={"a": part[0.8]}, parts={})
    control = Control("control", lambda *_: whole)
    one = claim(replace(whole, parts={"a": whole}), primary=primary, controls=(control,))
    verdict = judge(one, NO_TABLES, 0.95)
    parts = (*verdict.rates, *verdict.sets, *verdict.parts, *verdict.controls, verdict)
    half = stats.t.ppf((1 + level) / 2, 4) * 0.1
    for each in parts:
        assert (each.effect.low, each.effect.high) == pytest.approx((2 - half, 2 + half))
    row = claims_table.frame([verdict], 0.95).iloc[0]
    of_run = stats.t.ppf(0.975, 4) * 0.1
    limits = [row, *(json.loads(row[name])[0] for name in ("rates", "sets", "parts"))]
    for each in limits:
        assert [each[name] for name in LIMITS] == pytest.approx(
            [2 - of_run, 2 + of_run, 2 - half, 2 + half]
        )
    assert row["shown_confidence"] == pytest.approx(level)
    assert json.loads(row["controls"])[0]["low"] == pytest.approx(2 - of_run)
    assert f"{100 * level:g} % interval" in texts.shared("effect", verdict)


@pytest.mark.parametrize("primary", [False, True])
@pytest.mark.parametrize("parts", [("",), ("text", "image")])
def test_an_open_size_or_sign_is_within_the_interval_that_is_shown(primary, parts):
    seen = set()
    for value, error in itertools.product(np.linspace(-2, 2, 41), (0.1, 0.2, 0.3, 0.5)):
        found = MeasuredClaim(effect(float(value), error))
        measured = replace(found, parts=dict.fromkeys(parts, found)) if parts[0] else found
        verdict = verdict_on(measured, primary=primary)
        low, high = verdict.effect.low, verdict.effect.high
        seen.add(verdict.reason)
        if "size open" in verdict.reason:
            size = math.copysign(verdict.bound, value)
            assert low <= size <= high, (value, error)
        if verdict.reason == "either sign":
            assert low < 0 < high, (value, error)
        elif verdict.outcome in ("supports", "direction only", "contradicts"):
            assert low * high > 0, (value, error)
    assert {"size open", "opposite, size open", "either sign"} <= seen


def test_every_outcome_and_reason_has_a_sentence():
    for rule in ("effect", "equivalence", "level"):
        for value in (3.0, 1.1, 0.5, 0.0, -0.5, -1.1, -3.0):
            for error in (0.01, 0.3, 3.0):
                verdict = verdict_on(effect(value, error), rule=rule)
                assert texts.shared("why", verdict)
                assert texts.shared("effect", verdict)


def test_an_empty_run_measures_no_claim():
    found = judged(NO_TABLES, 0.95)
    assert {verdict.outcome for verdict in found} == {"not measured"}
    assert len(claims_table.unmeasured(found)) == len({verdict.claim.key for verdict in found})
    assert claims_table.rows(found) == []


def test_declarations_are_complete():
    """Keys are unique, and every claim names the settings that measure it."""
    claims = [one for pages in every_pages() for one in pages.claims]
    keys = [one.key for one in claims]
    assert len(set(keys)) == len(keys) <= 50
    assert all(one.needs and one.sentence.endswith(".") for one in claims)
    assert set(OUTCOMES[:3]) == {"supports", "direction only", "contradicts"}
