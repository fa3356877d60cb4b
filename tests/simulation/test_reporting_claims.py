"""Claims on the simulation, on made-up runs: outcomes, effects, bounds and controls by key."""

import itertools
from collections.abc import Iterable
from typing import Any, get_args

import numpy as np
import pytest
from scipy import stats

from mispair.report import published, questions, texts
from mispair.report.claims import MeasuredClaim
from mispair.report.judge import ControlVerdict, PartVerdict, Verdict, judge
from mispair.report.rules import OUTCOMES, UNMEASURED, Reason
from mispair.report.statistics import effect_of_estimate
from mispair.report.tables import Tables, tidy
from mispair.simulation.report import claims
from mispair.simulation.report.effects import gain_of_curves
from mispair.simulation.report.runs import TOLERANCES

MEASURES = tuple(TOLERANCES)
Levels = dict[str, float]


def runs(
    levels: Levels, trials: int = 6, at: Iterable[float] = (0.3,), metric: str = "accuracy",
    noise: float = 0.005, **about: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return runs of arms with these levels: S_h alone at C_s = 0, the others at each C_s."""
    rng = np.random.default_rng([*str((levels, at, about)).encode()])
    whole = {"condition": "as-written", "kind": "preset", "preset": "as-written", "features": 50,
             **about}  # fmt: skip
    return [
        {**whole, "metric": metric, "trained_on": arm, "trial": trial,
         "value": value + noise * rng.normal(), "spurious_probability": c}
        for trial in range(trials) for arm, value in levels.items()
        for c in ((0.0,) if arm == "high-quality-only" else at)
    ]  # fmt: skip


def cells(accuracy: dict[tuple[str, float], tuple[float, float]], schedule: str = "practical"):
    """Return cells of the grid from raw and filtered accuracy by misalignment and noise."""
    return [
        row for (misalignment, noise), (raw, filtered) in accuracy.items()
        for row in runs(
            {"raw": raw, "filtered": filtered}, condition=f"grid~{noise}~{misalignment}~{schedule}",
            kind="grid", misalignment=misalignment, image_noise_variance=noise,
            bias_schedule=schedule,
        )
    ]  # fmt: skip


class judged:  # noqa: N801 (reads as a function)
    """The verdicts on a preset by key, each judged when it is read."""

    def __init__(self, rows: list[dict[str, Any]], preset: str = "as-written") -> None:
        tables = Tables({"simulation": tidy("simulation", rows)})
        self.scope, self.preset = dict(claims.scopes(tables)).get(preset, Tables({})), preset

    def __getitem__(self, key: str) -> Verdict:
        (claim,) = [claim for claim in claims.CLAIMS if claim.key == key]
        return judge(claim, self.scope, 0.95, self.preset)


GAIN = {"raw": 0.6, "filtered": 0.7}


def test_the_gain_is_the_mean_over_c_s_of_each_trial():
    rows = runs(GAIN, at=(0.1, 0.3, 0.5), noise=0.02)
    rows += runs({"raw": 0.9, "filtered": 0.9}, at=(0.0,))  # counts for no effect above C_s = 0
    verdict = judged(rows)["filtered-accuracy"]
    above = [row for row in rows if row["spurious_probability"] > 0]
    gains = [
        np.mean([row["value"] * (1 if row["trained_on"] == "filtered" else -1) * 2
                 for row in above if row["trial"] == trial])
        for trial in range(6)
    ]  # fmt: skip
    test = stats.ttest_1samp(gains, 0)
    assert verdict.effect.value == pytest.approx(np.mean(gains))
    assert verdict.p == pytest.approx(test.pvalue)
    assert verdict.corrected_p == pytest.approx(5 * test.pvalue)
    assert (verdict.effect.n, verdict.effect.unit) == (6, "trial")
    assert verdict.bound == pytest.approx(gain_of_curves("accuracy")[[0.1, 0.3, 0.5]].mean() / 3)
    assert [part.name for part in verdict.rates] == [0.1, 0.3, 0.5]


def test_a_trial_that_lacks_a_c_s_does_not_count():
    rows = runs(GAIN, at=(0.1, 0.3))
    rows = [row for row in rows if (row["trial"], row["spurious_probability"]) != (0, 0.3)]
    assert judged(rows)["filtered-accuracy"].effect.n == 5


@pytest.mark.parametrize(
    ("filtered", "expected"),
    [(0.72, "supports"), (0.615, "direction only"), (0.6, "no such effect"), (0.5, "contradicts")],
)
def test_the_gain_is_held_to_a_third_of_the_published_one(filtered, expected):
    assert judged(runs({"raw": 0.6, "filtered": filtered}))["filtered-accuracy"].outcome == expected


def test_counts_are_scaled_to_the_number_of_features():
    of = {
        features: judged(
            runs({"raw": features / 2, "filtered": 0.9 * features}, metric="purified_features",
                 at=(0.1, 0.3), features=features)
        )
        for features in (50, 20)
    }  # fmt: skip
    for key in ("filtered-purified_features", "raw-degrades", "nearly-all"):
        assert of[20][key].bound == pytest.approx(0.4 * of[50][key].bound)
    assert of[50]["nearly-all"].bound == pytest.approx(47.5)


# Controls: the same effect on other rows

OTHER_TEST = "By the test of the other preset"


def definitions(gain: float, c: float = 0.3) -> list[dict[str, Any]]:
    """Return accuracies by the main definition, and the other with this gain."""
    main = {"definition": "as-run", "definition_main": "as-run", "condition": "as-run",
            "preset": "as-run"}  # fmt: skip
    other = {**main, "definition": "as-written"}
    return runs(GAIN, at=(c,), **main) + runs({"raw": 0.6, "filtered": 0.6 + gain}, **other)


@pytest.mark.parametrize(
    ("gain", "finding"), [(0.06, "does not limit"), (0.01, "limits"), (0.033, "cannot tell")]
)
def test_the_other_test_definition_must_keep_a_third(gain, finding):
    verdict = judged(definitions(gain), "as-run")["filtered-accuracy"]
    found = verdict.control(OTHER_TEST)
    assert found.finding == finding
    assert found.effect.value == pytest.approx(gain, abs=0.01)
    assert verdict.effect.value == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(
    ("preset", "margin"), [("as-run", 2), ("as-written", 1)]
)  # the margins of the presets
def test_zero_biases_and_noiseless_prompts_are_read_at_the_margin_of_the_preset(preset, margin):
    about = {"condition": preset, "preset": preset}
    rows = runs(GAIN, **about)
    for prompts, bias, at in itertools.product(("noisy", "noiseless"), ("trained", "zero"), (1, 2)):
        gain = 0.01 if bias == "zero" else 0.2 if prompts == "noiseless" else 0.1
        gain = gain if at == margin else -0.5
        rows += runs({"raw": 0.4, "filtered": 0.4 + gain}, metric="accuracy_by_protocol",
                     prompts=prompts, bias=bias, margin=at, **about)  # fmt: skip
    verdict = judged(rows, preset)["filtered-accuracy"]
    zero = verdict.control("With all biases set to zero")
    noiseless = verdict.control("With noiseless prompts")
    assert (zero.finding, noiseless.finding) == ("limits", "does not limit")
    assert noiseless.effect.value == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize(
    ("gain", "finding"), [(0.1, "limits"), (0.0, "does not limit"), (-0.1, "does not limit")]
)
def test_filtering_right_captions_should_gain_nothing(gain, finding):
    rows = runs(GAIN) + runs({"raw": 0.6, "filtered": 0.6 + gain}, at=(0.0,))
    found = judged(rows)["filtered-accuracy"].control("Filtering where every caption is right")
    assert found.finding == finding
    assert found.effect.value == pytest.approx(gain, abs=0.01)


def test_conditions_around_the_preset_are_controls_and_not_mixed_in():
    alone = judged(runs(GAIN))["filtered-accuracy"]
    rows = runs(GAIN)
    rows += runs({"raw": 0.8, "filtered": 0.9}, condition="bridge~encoder", kind="bridge")
    rows += cells({("groups", 0.02): (0.8, 0.9), ("groups", 0.0004): (0.8, 0.8)})
    rows += cells({("groups", 0.02): (0.8, 0.75)}, "zero")
    verdict = judged(rows)["filtered-accuracy"]
    assert verdict.effect == alone.effect
    findings = {found.control.key: found.finding for found in verdict.controls}
    assert findings["With the encoders of the other preset"] == "does not limit"
    assert findings["At the lowest noise of the grid"] == "limits"
    assert findings["Trained without thresholds"] == "limits"
    assert {found.finding for found in alone.controls} == {"not measured"}


def uneven(gains: Iterable[float]) -> list[dict[str, Any]]:
    """Return runs whose gain differs by trial, by both definitions."""
    return [
        {**row, "trial": trial, "value": gain * (row["trained_on"] == "filtered")}
        for trial, gain in enumerate(gains) for row in definitions(0.06) if not row["trial"]
    ]  # fmt: skip


def test_an_undecided_gain_leaves_its_controls_undecided_with_their_effects():
    """With p between α / 5 and α the sign is open only after the correction."""
    verdict = judged(uneven([0.04, 0.06, 0.1, 0.13]), "as-run")["filtered-accuracy"]
    found = verdict.control(OTHER_TEST)
    assert (verdict.outcome, verdict.near) == ("cannot tell", False)
    assert 0.01 < verdict.p < 0.05 < verdict.corrected_p
    assert (found.finding, found.share) == ("cannot tell", pytest.approx(1))
    (question,) = [each for each in claims.QUESTIONS if each.key == "filtering"]
    answer = questions.answered("simulation", question, [verdict], Tables({}), 0.95)
    assert "open" in answer.sentence
    assert "no effect" not in answer.sentence + answer.limit


# Sweeps


def counts(by_c: Levels, arm: str = "raw") -> list[dict[str, Any]]:
    return [
        row for c, level in by_c.items()
        for row in runs({arm: level}, at=(float(c),), metric="purified_features", noise=0.5)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("by_c", "expected"),
    [
        ({"0": 50, "0.3": 45, "0.5": 30}, "supports"),
        ({"0": 50, "0.3": 45, "0.5": 47}, "direction only"),
        ({"0": 40, "0.3": 45, "0.5": 50}, "contradicts"),
        ({"0": 50, "0.3": 60, "0.5": 30}, "cannot tell"),  # a rate goes the other way
        ({"0": 50, "0.3": 50, "0.5": 50}, "no such effect"),
        ({"0": 50}, "not measured"),
    ],
)
def test_raw_degrades_by_the_ends_unless_a_rate_goes_the_other_way(by_c, expected):
    assert judged(counts(by_c))["raw-degrades"].outcome == expected


def test_a_sweep_beyond_the_published_one_is_compared_with_all_of_it():
    curve = published.figure1_curve("purified_features", "raw")
    verdict = judged(counts({"0": 50, "0.7": 20}))["raw-degrades"]
    assert verdict.bound == pytest.approx(abs(curve.iloc[-1] - curve.iloc[0]) / 3)


@pytest.mark.parametrize(("last", "expected"), [(0.2, "supports"), (0.0, "no such effect")])
def test_the_gap_widens_over_c_s(last, expected):
    rows = runs({"raw": 0.9, "filtered": 0.9}, at=(0.0,))
    rows += runs({"raw": 0.7, "filtered": 0.7 + last}, at=(0.5,))
    verdict = judged(rows)["gap-widens"]
    assert verdict.outcome == expected
    assert verdict.measured.at == (0.0, 0.5)
    assert verdict.effect.value == pytest.approx(last, abs=0.01)


# Levels and shares


@pytest.mark.parametrize(
    ("values", "lowest", "expected"),
    [([50, 50, 50, 50], 50, "supports"), ([40, 41, 42, 40], 50, "contradicts"),
     ([40, 41, 42, 40], 16, "cannot tell"),  # the encoders learned too little
     ([46, 49, 50, 47], 50, "cannot tell"), ([50], 50, "cannot tell")],
)  # fmt: skip
def test_nearly_all_is_a_level_at_the_largest_c_s_of_the_claim(values, lowest, expected):
    rows = [
        row for trial, value in enumerate(values)
        for c, level in ((0.1, lowest), (0.3, value), (0.5, 0))
        for row in [{**runs({"filtered": level}, 1, (c,), "purified_features", 0)[0],
                     "trial": trial}]
    ]  # fmt: skip
    verdict = judged(rows)["nearly-all"]
    assert verdict.outcome == expected
    assert verdict.measured.gate == ("few purified" if lowest < 50 else "")
    assert verdict.effect.value == pytest.approx(np.mean(values))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [(0.5, "supports"), (0.05, "no such effect"), (0.12, "direction only"), (-0.2, "contradicts")],
)
def test_mixing_is_measured_against_right_captions(raw, expected):
    levels = {"raw": raw, "filtered": 0.05}
    rows = runs(levels, metric="mixed_neurons") + runs({"raw": 0.05}, 6, (0.0,), "mixed_neurons")
    rows += runs({"raw": 0.3}, metric="mixed_pairs_covered")
    verdict = judged(rows)["raw-mixes"]
    assert verdict.outcome == expected
    assert verdict.effect.value == pytest.approx(raw - 0.05, abs=0.01)
    assert verdict.limited == ("Spurious pairs that some neuron mixes, of all",)
    other = judged(rows)["filtered-unmixes"]
    assert other.effect.value == pytest.approx(0.05 - raw, abs=0.01)
    alone = [row for row in rows if row["spurious_probability"]]
    assert judged(alone)["raw-mixes"].outcome == UNMEASURED


# Figure 1


def published_runs(shift: float, wrong: tuple[str, ...] = MEASURES, trials: int = 3):
    """Return runs at every published point, with `shift` tolerances off in the `wrong` measures."""
    return [
        {"preset": "as-run", "condition": "as-run", "kind": "preset", "features": 50,
         "metric": metric, "trained_on": row["trained_on"], "trial": trial,
         "spurious_probability": row["spurious_probability"],
         "value": row[metric] - shift * TOLERANCES[metric] * (metric in wrong)}
        for row in published.figure1().to_dict("records") for metric in MEASURES
        for trial in range(trials)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("shift", "wrong", "held", "expected"),
    [(0.9, MEASURES, 8, "supports"), (1.1, MEASURES, 0, "contradicts"),
     (1.1, MEASURES[:2], 4, "cannot tell")],
)  # fmt: skip
def test_curves_come_out_within_their_tolerances(shift, wrong, held, expected):
    verdict = judged(published_runs(shift, wrong), "as-run")["figure1-reproduced"]
    assert verdict.outcome == expected
    assert (verdict.effect.value * verdict.effect.n, verdict.effect.n) == (held, 8)
    assert {part.effect.value for part in verdict.rates} == {held / 8}


def test_all_runs_decide_and_the_best_of_them_are_a_control():
    """Two of three runs are right, and one is far too low: its mean is, the best are not."""
    rows = [
        {**row, "value": row["value"] - 6 * TOLERANCES[row["metric"]] * (row["trial"] == 0)}
        for row in published_runs(0)
    ]
    verdict = judged(rows, "as-run")["figure1-reproduced"]
    best = verdict.control("The best two thirds of the runs, as published")
    assert verdict.outcome == "contradicts"
    assert verdict.effect.value == 0
    assert best.effect.value == 1
    tables = Tables({"simulation": tidy("simulation", rows)})
    (question,) = [each for each in claims.QUESTIONS if each.key == "reproduction"]
    numbers = question.numbers(tables, 0.95)["reproduced"]["as-run"]
    assert {name: numbers[name] for name in ("all", "of_all", "best", "of_best")} == {
        "all": 0, "of_all": 88, "best": 88, "of_best": 88,
    }  # fmt: skip
    assert (numbers["neighbour"], numbers["of_neighbour"]) == (61, 80)


@pytest.mark.parametrize(("wrong_end", "outcome"), [(False, "supports"), (True, "contradicts")])
def test_wrong_published_values_are_compared_at_the_points_that_have_one(wrong_end, outcome):
    """The largest published C_s has no next one, whatever was measured there."""
    end = max(row["spurious_probability"] for row in published_runs(0))
    rows = [
        {**row, "value": row["value"] + 9 * wrong_end * TOLERANCES[row["metric"]]
         * (row["spurious_probability"] == end)}
        for row in published_runs(0)
    ]  # fmt: skip
    verdict = judged(rows, "as-run")["figure1-reproduced"]
    control = verdict.control("The published value at the next C_s, which is wrong")
    assert verdict.outcome == outcome
    assert control.share == control.effect.value == 2 / 8
    assert control.finding == "does not limit"


def test_points_of_another_size_are_not_compared():
    rows = [{**row, "features": 20} for row in published_runs(0)]
    assert judged(rows, "as-run")["figure1-reproduced"].outcome == UNMEASURED


# Scopes and sentences


def test_each_preset_is_judged_on_its_own_rows():
    rows = runs(GAIN) + runs({"raw": 0.7, "filtered": 0.6}, condition="as-run", preset="as-run")
    assert judged(rows)["filtered-accuracy"].outcome == "supports"
    assert judged(rows, "as-run")["filtered-accuracy"].outcome == "contradicts"
    tables = Tables({"simulation": tidy("simulation", rows)})
    assert [preset for preset, _ in claims.scopes(tables)] == ["as-written", "as-run"]
    assert claims.scopes(Tables({})) == []


@pytest.mark.parametrize("outcome", [name for name in OUTCOMES if name != UNMEASURED])
@pytest.mark.parametrize("question", claims.QUESTIONS, ids=lambda question: question.key)
def test_every_outcome_has_its_sentences(question, outcome):
    (claim,) = [claim for claim in claims.CLAIMS if claim.key == question.claims[0]]
    effect = effect_of_estimate(0.1, 0.01, 7, 8, 0.95, "trial")
    controls = tuple(ControlVerdict(control, effect, 0.3, "limits") for control in claim.controls)
    counts = {f"{of}{what}": 7 for of in ("", "of_") for what in ("all", "best", "neighbour")}
    for presets, reason in itertools.product(
        (("as-run",), ("as-written", "as-run")), get_args(Reason)
    ):
        verdicts = tuple(
            Verdict(claim, outcome, reason, MeasuredClaim(effect), 0.02, 0.02, 0.1, preset=preset,
                    controls=controls, rates=(PartVerdict(0.1, effect, 0.02, outcome),))
            for preset in presets
        )  # fmt: skip
        numbers = {"trials": 8, "ends": dict.fromkeys(presets, (0.0, 0.5)),
                   "reproduced": dict.fromkeys(presets, counts)}  # fmt: skip
        of = {claim.key: verdicts[0]}
        answer = questions.Answer(question, "simulation", verdicts, of, verdicts, numbers, 0.95)
        assert answer.sentence
        for text in (answer.sentence, answer.limit, answer.advice, texts.remark(verdicts[0])):
            assert "nan" not in text.lower().split()


def test_who_changes_a_published_curve_changes_no_other() -> None:
    curve = published.figure1_curve("purified_features", "raw")
    kept = curve.copy()
    curve.iloc[:] = 0
    assert published.figure1_curve("purified_features", "raw").equals(kept)
