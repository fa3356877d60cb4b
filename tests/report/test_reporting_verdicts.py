from __future__ import annotations

import math
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mispair.evaluation.report.claims_pruning import decide_sets
from mispair.image_text.report import claims_shuffling as claims_image_text
from mispair.report import multiplicity, studies, study_modules, verdicts
from mispair.report.pages.content import judge
from mispair.report.questions import ACCURACY as POINTS
from mispair.report.questions import Question, answered, effect_sentence
from mispair.report.statistics import Effect, Interval, Trend, effect_of_mean
from mispair.report.tables import Tables, tidy

RATES = (0.0, 0.1, 0.3, 0.5, 0.8)


def purity(start: str, slope: float, metric: str = "mean_abs_cosine", tower: str = "text", seeds=3):
    """Return rows of a measure that changes by `slope` from C_m 0 to 1."""
    return [
        {"start": start, "rate": rate, "tower": tower, "metric": metric, "seed": seed,
         "value": 0.08 + slope * (1 + 0.02 * seed) * rate + 1e-5 * seed}
        for rate in RATES for seed in range(seeds)
    ]  # fmt: skip


def zeroshot(slopes: dict[str, float], metric: str = "acc1", start: str = "pretrained"):
    return [
        {"start": start, "rate": rate, "evaluation_set": name, "metric": metric, "seed": seed,
         "value": 0.7 + slope * (1 + 0.02 * seed) * rate + 1e-5 * seed}
        for name, slope in slopes.items() for rate in RATES for seed in range(3)
    ]  # fmt: skip


def pruning(high: float, low: float, metric: str = "acc1", spread: float = 0.01, **more: Any):
    rows = []
    for k in (16, 64):
        here = {"start": "untouched", "evaluation_set": "shapes", "basis": "original", "seed": 0,
                "metric": metric, "k": k} | more  # fmt: skip
        for name, value in (("high-purity", high), ("low-purity", low)):
            rows.append({**here, "strategy": name, "ranked_by": "text", "draw": 0, "value": value})
        rows += [
            {**here, "strategy": "random", "ranked_by": "none", "draw": draw,
             "value": 0.6 + spread * (draw - 4.5) / 4.5}
            for draw in range(10)
        ]  # fmt: skip
    return rows


def simulation(gain, trials: int = 3, metric: str = "accuracy", probabilities=(0.1, 0.3, 0.5)):
    return [
        {"preset": "as-run", "condition": "as-run", "kind": "preset", "features": 50,
         "spurious_probability": c, "trained_on": arm, "metric": metric, "trial": t,
         "value": 0.9 - c + 0.001 * t * t + gain(c, t) * (arm != "raw")}
        for c in probabilities for t in range(trials) for arm in ("raw", "filtered")
    ]  # fmt: skip


def tables(**rows: list[dict[str, Any]]) -> Tables:
    return Tables({name: tidy(name, found) for name, found in rows.items()})


def judged(found: Tables) -> dict[str, verdicts.Verdict]:
    every = [
        verdict
        for name in studies.NAMES
        for judge in study_modules.pages(name).judges
        for verdict in judge(found, 0.95)
    ]
    return {verdict.claim.key: verdict for verdict in every}


@pytest.mark.parametrize(
    ("rho", "rise", "fall", "blocks", "expected"),
    [
        (1.0, 0.01, 1.0, 3, "supports"),
        (1.0, 0.03, 1.0, 3, "cannot tell"),  # two-sided, 0.06
        (-1.0, 1.0, 0.01, 3, "contradicts"),
        (0.3, 0.2, 0.8, 3, "cannot tell"),
        (1.0, 0.01, 1.0, 1, "cannot tell"),
        (math.nan, math.nan, math.nan, 0, "not measured"),
    ],
)
def test_the_rule_of_trends(rho, rise, fall, blocks, expected):
    assert verdicts.decide_trend(Trend(rho, rise, fall, 9, blocks), +1, 0.05)[0] == expected
    opposite = {"supports": "contradicts", "contradicts": "supports"}.get(expected, expected)
    assert verdicts.decide_trend(Trend(rho, rise, fall, 9, blocks), -1, 0.05)[0] == opposite


def effect(value: float, error: float, n: int = 5, confidence: float = 0.95) -> Effect:
    """Return the effect of a normal estimate with this standard error."""
    outer, inner = (stats.norm.ppf(1 - tail) * error for tail in (0.025, 0.05))
    p = 2 * stats.norm.sf(abs(value) / error) if error else math.nan
    return Effect(value, value - outer, value + outer, value - inner, value + inner, p, n, "seed")


@pytest.mark.parametrize(
    ("value", "error", "sign", "expected"),
    [
        (0.5, 0.1, 1, "supports"),
        (-0.5, 0.1, 1, "contradicts"),
        (-0.5, 0.1, -1, "supports"),
        (0.0, 0.01, 1, "no such effect"),
        (0.02, 0.001, 1, "no such effect"),  # significant, and smaller than what matters
        (0.12, 0.04, 1, "supports"),
        (0.09, 0.04, 1, "cannot tell"),  # significant, perhaps too small
        (0.0, 0.2, 1, "cannot tell"),
        (0.3, 0.2, 1, "cannot tell"),
        (math.nan, 0.1, 1, "not measured"),
        (0.3, math.nan, 1, "cannot tell"),
    ],
)
def test_the_rule_of_effects(value, error, sign, expected):
    assert verdicts.decide_effect(effect(value, error), sign, 0.1, 0.05)[0] == expected


def test_an_effect_needs_a_smallest_one_above_zero():
    for smallest in (0.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="smallest effect of interest"):
            verdicts.decide_effect(effect(0.5, 0.1), 1, smallest, 0.05)


def test_claims_are_corrected_for_their_number():
    def verdict(p: float, primary: bool, outcome: verdicts.Outcome = "supports"):
        claim = verdicts.Claim("x", "image_text", "", "", "trend", "", primary)
        return verdicts.Verdict(claim, outcome, "", effect=replace(effect(1, 0.1), p=p))

    bare = replace(verdict(0.5, False), effect=None)
    every = [
        verdict(0.02, True),
        verdict(0.03, True),
        verdict(0.04, False),
        verdict(0.04, False, "contradicts"),
        bare,
        verdict(0.9, True, "cannot tell"),
    ]
    found = multiplicity.adjusted(every, 0.05)
    # Holm: 3 · 0.02, then max(0.06, 2 · 0.03), then 0.9. The false-discovery rate: 2/2 · 0.04.
    assert [v.adjusted_p for v in found if v.effect] == pytest.approx([0.06, 0.06, 0.04, 0.04, 0.9])
    assert [v.outcome for v in found] == [
        "cannot tell", "cannot tell", "supports", "contradicts", "supports", "cannot tell",
    ]  # fmt: skip
    assert math.isnan(found[4].adjusted_p)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.1, 0.3, "supports"), (-0.3, -0.1, "contradicts"), (-0.1, 0.3, "cannot tell"),
     (math.nan, math.nan, "cannot tell")],
)  # fmt: skip
def test_the_rule_of_differences(low, high, expected):
    assert verdicts.decide_difference(Interval(0.1, low, high, 4))[0] == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(48.0, 50.0, "supports"), (40.0, 44.0, "contradicts"), (45.0, 49.0, "cannot tell")],
)
def test_the_rule_of_levels(low, high, expected):
    assert verdicts.decide_level(Interval(47, low, high, 5), 47.5)[0] == expected


@pytest.mark.parametrize(("slope", "expected"), [(0.03, "supports"), (-0.03, "contradicts")])
def test_overlap_against_shuffling_is_judged_in_both_directions(slope, expected):
    assert judged(tables(purity=purity("pretrained", slope)))["overlap-rises"].outcome == expected


def test_one_seed_decides_nothing():
    verdict = judged(tables(purity=purity("pretrained", 0.03, seeds=1)))["overlap-rises"]
    assert verdict.outcome == "cannot tell"


def scales(start: str, scale: float, product: float = 2.5, converged: float = 1.0):
    """Return rows of the logit scale of an arm at the end of its training."""
    values = {"logit_scale": scale, "gap_times_scale": product, "logit_scale_converged": converged}
    return [
        {"start": start, "rate": rate, "metric": metric, "seed": seed, "value": value}
        for metric, value in values.items() for rate in RATES for seed in range(3)
    ]  # fmt: skip


def with_controls(left: dict[str, float], activations: float = 0.0):
    """Return a rise of 0.03, and of each control the share that it leaves."""
    rows = purity("pretrained", 0.03) + purity("pretrained", 0.03, "mean_abs_correlation")
    for start, share in left.items():
        rows += purity(start, 0.03 * share)
        rows += purity(start, 0.03 * activations, "mean_abs_correlation")
    return rows


def test_controls_limit_a_supported_claim_where_they_should():
    rows = with_controls({"reinitialised": 0.01, "scale-converged": 0.1, "without-decay": 1.0})
    rows += scales("scale-converged", 10.0)
    rows += purity("scale-5", 0.001) + purity("scale-70", 0.04)
    rows += purity("pretrained", 0.03, "mean_abs_cosine_rotated")
    rows += purity("pretrained", -20.0, "participation_ratio")
    rows += [{"start": "untouched", "tower": "text", "metric": "mean_abs_cosine", "seed": 0,
              "value": 0.06}]  # fmt: skip
    limits = judged(tables(purity=rows))["overlap-rises"].limited
    assert limits == (
        "Temperature", "Fixed scales", "Random start, norm × 1", "Rotated basis",
        "Participation ratio", "Untouched model",
    )  # fmt: skip


def test_controls_that_agree_do_not_limit():
    rows = with_controls({"reinitialised": 1.0, "scale-converged": 0.9}, activations=1.0)
    rows += scales("scale-converged", 10.0)
    rows += purity("scale-5", 0.03) + purity("scale-70", 0.04)
    rows += purity("pretrained", 0.001, "mean_abs_cosine_rotated")
    rows += purity("pretrained", 5.0, "participation_ratio")
    rows += purity("pretrained", 0.05, tower="image")
    rows += [{"start": "untouched", "tower": "text", "metric": "mean_abs_cosine", "seed": 0,
              "value": 0.08}]  # fmt: skip
    verdict = judged(tables(purity=rows))["overlap-rises"]
    assert verdict.limited == ()
    assert len(verdict.controls) == 9


def test_a_scale_that_has_not_converged_is_no_control():
    rows = with_controls({"scale-converged": 0.1})
    for flags, finding in ((scales("scale-converged", 10.0), "limits"),
                           (scales("scale-converged", 10.0, converged=0.0), "not measured"),
                           ([], "not measured")):  # fmt: skip
        verdict = judged(tables(purity=rows + flags))["overlap-rises"]
        found = {control.name: control.finding for control in verdict.controls}
        assert found["Temperature"] == finding


def test_an_effect_that_vanishes_in_columns_alone_is_not_gone():
    rows = with_controls({"reinitialised": 0.02}, activations=0.5)
    verdict = judged(tables(purity=rows))["overlap-rises"]
    (control,) = (each for each in verdict.controls if each.name == "Random start, norm × 1")
    assert control.finding == "does not limit"
    assert "vanishes in columns and not in activations" in control.text


def test_without_an_effect_or_a_model_above_chance_there_is_no_claim_to_control():
    none = judged(tables(purity=purity("pretrained", 0.0005)))["overlap-rises"]
    assert (none.outcome, none.controls) == ("no such effect", ())
    rows = zeroshot({"a": -0.2})
    for chance, expected in ((0.1, "supports"), (0.72, "cannot tell")):
        scores = [{**row, "chance": chance, "n": 500} for row in rows]
        found = judged(tables(purity=purity("pretrained", 0.03), zeroshot=scores))
        assert found["overlap-rises"].outcome == expected
        assert found["accuracy-falls"].outcome == expected


def test_a_model_at_chance_answers_no_question():
    draw = np.random.default_rng(0)

    def unchanged(base: float, spread: float, **keys: Any) -> list[dict[str, Any]]:
        return [
            {**keys, "start": "pretrained", "scheme": scheme, "rate": rate, "seed": seed,
             "value": base + spread * draw.normal()}
            for scheme in ("random", "similar") for rate in RATES if rate or scheme == "random"
            for seed in range(3)
        ]  # fmt: skip

    overlap = [
        row for tower in ("text", "image") for metric in ("mean_abs_cosine", "effective_rank")
        for row in unchanged(0.1015, 2e-5, tower=tower, metric=metric)
    ]  # fmt: skip
    accuracy = unchanged(0.216, 0.003, evaluation_set="a", metric="acc1", chance=0.2, n=300)
    silhouette = unchanged(-0.01, 0.0005, evaluation_set="a", metric="silhouette")
    measured = tables(purity=overlap, zeroshot=accuracy + silhouette, pruning=pruning(0.216, 0.217))
    found = judge(measured, 0.95)
    assert {verdict.outcome for verdict in found} == {
        "no such effect", "cannot tell", "not measured",
    }, [(v.claim.key, v.outcome, v.reason) for v in found]  # fmt: skip
    assert not any(verdict.limited for verdict in found)
    answers = [
        answered(question, found, measured, 0.95)
        for question in study_modules.pages("image_text").questions
    ]
    told = [answer for answer in answers if answer.measured]
    assert len(told) > 2
    for answer in told:
        assert {verdict.outcome for verdict in answer.lead} <= {"no such effect", "cannot tell"}
        assert "rises" not in answer.sentence
        assert "falls" not in answer.sentence
        assert answer.advice in ("", "Do not choose the neurons to keep by mean |cos|.")


def test_a_set_that_goes_the_other_way_is_named_and_takes_nothing_back():
    def part(name: str, outcome: verdicts.Outcome, p: float) -> verdicts.Part:
        return verdicts.Part(name, outcome, "", p)

    parts = [part("a", "supports", 0.001), part("b", "contradicts", 0.03),
             part("c", "contradicts", 0.001)]  # fmt: skip
    outcome, reason = decide_sets("supports", parts[:2], "why")
    assert outcome == "supports"
    assert "b" in reason.removeprefix("why")
    # One of twenty sets at p = 0.03 is what chance gives.
    many = [*(part(f"set {k}", "cannot tell", 0.5) for k in range(18)), parts[1]]
    assert decide_sets("supports", many, "why") == ("supports", "why")
    assert decide_sets("cannot tell", parts, "why")[0] == "cannot tell"


def test_accuracy_that_falls_without_overlap_limits_the_claim():
    name = "Arms without a rise of overlap"
    rows = zeroshot({"a": -0.2}) + zeroshot({"a": -0.2}, start="reinitialised")
    both = purity("pretrained", 0.03) + purity("reinitialised", 0.0)
    verdict = judged(tables(zeroshot=rows, purity=both))["accuracy-falls"]
    assert name in verdict.limited
    both = purity("pretrained", 0.03) + purity("reinitialised", 0.03)
    verdict = judged(tables(zeroshot=rows, purity=both))["accuracy-falls"]
    assert name not in verdict.limited


@pytest.mark.parametrize(
    ("high", "low", "expected"),
    [
        (0.7, 0.5, "supports"),
        (0.5, 0.7, "contradicts"),
        (0.602, 0.598, "cannot tell"),
        (0.8, 0.65, "cannot tell"),  # random neurons are the worst
    ],
)
def test_pruning_is_judged_against_the_spread_of_draws(high, low, expected):
    found = judged(tables(pruning=pruning(high, low)))
    assert found["pruning-accuracy"].outcome == expected
    assert found["pruning-silhouette"].outcome == "not measured"


def test_keeping_all_neurons_is_left_out_of_the_scores():
    rows = pruning(0.7, 0.5)
    rows += [{**row, "k": 128, "value": 0.9} for row in rows if row["k"] == 64]
    verdict = judged(tables(pruning=rows))["pruning-accuracy"]
    assert verdict.measured.startswith("high-purity 0.700")
    assert "2 values of k" in verdict.sample


def test_a_set_without_a_silhouette_is_left_out_for_all_strategies():
    rows = pruning(0.7, 0.5, "silhouette")
    rows += [{**row, "evaluation_set": "one-class", "value": None} for row in rows]
    assert judged(tables(pruning=rows))["pruning-silhouette"].measured.startswith(
        "high-purity 0.700, random 0.600"
    )


def test_a_stronger_ranking_by_variance_limits_the_claim():
    rows = pruning(0.7, 0.5)
    for name, value in (("high-variance", 0.9), ("low-variance", 0.3)):
        rows += [{**row, "strategy": name, "value": value} for row in rows
                 if row["strategy"] == "high-purity"]  # fmt: skip
    verdict = judged(tables(pruning=rows))["pruning-accuracy"]
    assert "Ranked by activation variance" in verdict.limited


@pytest.mark.parametrize(
    ("gain", "expected"),
    [(0.1, "supports"), (-0.1, "contradicts"), (0.0, "no such effect"), (0.01, "no such effect")],
)
def test_filtering_is_judged_by_paired_differences(gain, expected):
    rows = simulation(lambda c, t: gain + 0.001 * (-1) ** (t + round(10 * c)))
    assert judged(tables(simulation=rows))["filtered-accuracy"].outcome == expected


def test_one_trial_decides_nothing():
    rows = simulation(lambda c, t: 0.05, trials=1)
    found = judged(tables(simulation=rows))
    assert found["filtered-accuracy"].outcome == "cannot tell"
    assert found["gap-widens"].outcome == "cannot tell"


@pytest.mark.parametrize(("slope", "expected"), [(1, "supports"), (-1, "contradicts")])
def test_the_gap_may_widen_or_close(slope, expected):
    rows = simulation(lambda c, t: 0.3 + slope * c * (1 + 0.01 * t))
    assert judged(tables(simulation=rows))["gap-widens"].outcome == expected


def test_a_trial_counts_once_at_all_probabilities():
    # A trial has the same gain at each of nine C_s: nine copies of two numbers are two numbers.
    rows = simulation(lambda c, t: 0.1 + 0.1 * t, 2, probabilities=[0.1 * k for k in range(1, 10)])
    verdict = judged(tables(simulation=rows))["filtered-accuracy"]
    assert verdict.outcome == "cannot tell"
    assert verdict.effect is not None
    expected = astuple(effect_of_mean([0.1, 0.2], 0.95, "trial"))
    assert astuple(verdict.effect)[:-1] == pytest.approx(expected[:-1])


def test_two_trials_that_purify_every_feature_show_no_spread():
    rows = simulation(lambda c, t: 0, 2, metric="purified_features")
    for row in rows:
        row["value"] = 50.0
    assert judged(tables(simulation=rows))["nearly-all"].outcome == "cannot tell"
    rows = simulation(lambda c, t: 0, 5, metric="purified_features")
    for row in rows:
        row["value"] = 50.0
    assert judged(tables(simulation=rows))["nearly-all"].outcome == "supports"


def test_selection_of_the_best_runs_is_shown_and_may_limit():
    steady = simulation(lambda c, t: 0.2)
    assert judged(tables(simulation=steady))["filtered-accuracy"].limited == ()
    lucky = simulation(lambda c, t: -0.05 + 0.35 * (t == 2))
    control = judged(tables(simulation=lucky))["filtered-accuracy"].controls[0]
    assert control.finding == "limits"


def test_the_level_of_purified_features_is_judged_up_to_c_s_03():
    rows = simulation(lambda c, t: 0, metric="purified_features")
    for row in rows:
        row["value"] = 44 + 0.1 * row["trial"] if row["trained_on"] == "filtered" else 40
    verdict = judged(tables(simulation=rows))["nearly-all"]
    assert (verdict.outcome, verdict.scope) == ("contradicts", "at C_s = 0.3")


def test_empty_tables_leave_every_claim_unmeasured():
    found = judged(tables())
    assert {verdict.outcome for verdict in found.values()} == {"not measured"}
    pages = study_modules.every_pages()
    questions = [question for each in pages for question in each.questions]
    assert set(found) == {key for question in questions for key in question.claims}
    for question in questions:
        answer = answered(question, [*found.values()], tables(), 0.95)
        assert (answer.measured, answer.sentence, answer.advice) == (False, "", "")
        assert answer.why_unmeasured


ACCURACY = claims_image_text.ACCURACY
"""A claim whose effect is printed in points."""


@pytest.mark.parametrize(
    ("values", "outcome", "expected"),
    [
        ([-0.02, -0.03, -0.025], "supports", "Accuracy falls by 2.5 points (95 % interval 1.3 to"),
        ([0.02, 0.03, 0.025], "contradicts", "Accuracy rises by 2.5 points (95 % interval 1.3 to"),
        ([0.001, -0.001, 0.0], "no such effect", "Accuracy changes by less than 1.0 points: 0.0"),
        ([-0.2, 0.1, 0.0], "cannot tell", "Cannot tell: accuracy changes by −3.3 points"),
        ([-0.02], "cannot tell", "Cannot tell: accuracy changes by −2.0 points (no interval: 1 se"),
    ],
)  # fmt: skip
def test_an_answer_is_the_effect_of_its_lead_claim(values, outcome, expected):
    effect = effect_of_mean(values, 0.95, "seed")
    found = verdicts.decide_effect(effect, -1, 0.01, 0.05)[0]
    assert found == outcome
    lead = verdicts.Verdict(ACCURACY, found, "why", effect=effect, smallest=0.01)
    other = verdicts.Verdict(claims_image_text.OVERLAP, "not measured", "it was not run")
    question = Question(
        "?", (ACCURACY.key, other.claim.key), lambda found: effect_sentence(found, POINTS),
        advice=lambda found: "Do so.",
    )  # fmt: skip
    answer = answered(question, [lead, other], tables(), 0.95)
    assert answer.sentence.startswith(expected)
    assert answer.advice == "Do so."
    assert dict(answer.tally) == {outcome: 1, "not measured": 1}


def test_an_answer_names_a_reason_that_the_effect_does_not_show():
    effect = effect_of_mean([-0.02, -0.03, -0.025], 0.95, "seed")
    lead = verdicts.Verdict(
        ACCURACY, "cannot tell", "it is at chance", effect=effect, smallest=0.01
    )
    question = Question("?", (ACCURACY.key,), lambda found: effect_sentence(found, POINTS))
    sentence = answered(question, [lead], tables(), 0.95).sentence
    assert sentence.startswith("Cannot tell: ")
    assert sentence.endswith("; it is at chance.")


def test_an_answer_of_two_presets_names_both():
    effect = effect_of_mean([-0.02, -0.03, -0.025], 0.95, "seed")
    both = [
        verdicts.Verdict(ACCURACY, "supports", "", effect=effect, smallest=0.01, preset=name)
        for name in ("as-written", "as-run")
    ]
    question = Question("?", (ACCURACY.key,), lambda found: effect_sentence(found, POINTS, "There"))
    answer = answered(question, both, tables(), 0.95)
    assert len(answer.lead) == 2
    assert answer.sentence.startswith("There, accuracy falls by 2.5 points")
    assert answer.sentence.index("(as-written)") < answer.sentence.index("(as-run)")


def test_every_claim_has_a_rule_and_a_figure():
    from mispair.report import studies

    names = {figure.name for figure in studies.figures()}
    for verdict in judged(tables()).values():
        own = study_modules.pages(verdict.claim.study).rules
        assert verdict.claim.rule in {**verdicts.RULES, **own}
        assert verdict.claim.figure in names


def test_gaps_in_a_sweep_do_not_break_the_trend():
    rows = [row for row in purity("pretrained", 0.03) if not (row["rate"] == 0.3 and row["seed"])]
    assert judged(tables(purity=rows))["overlap-rises"].outcome == "supports"
    assert isinstance(tables(purity=rows).purity, pd.DataFrame)
