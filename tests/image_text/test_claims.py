"""The claims of the image-text study, on made-up arms of which the answer is known."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mispair.evaluation.purity import directions_of_overlap
from mispair.evaluation.report.rows import published_directions
from mispair.image_text.report import claims, effects, pages
from mispair.image_text.report.neurons import MEASURES, SMALLEST_GAIN, no_own_basis, own_basis_gain
from mispair.report import published, questions
from mispair.report.claims import THIRD
from mispair.report.judge import Verdict, judge
from mispair.report.statistics import IMAGE_AND_SEED
from mispair.report.tables import Tables
from tests.made_up_tables import tables

RATES = (0.0, 0.3, 0.8)
TOWERS = ("text", "image")
CLAIMS = {claim.key: claim for claim in claims.CLAIMS}


def judged(key: str, of: Tables) -> Verdict:
    return judge(CLAIMS[key], of, 0.95)


def findings(verdict: Verdict) -> dict[str, str]:
    return {found.control.key: found.finding for found in verdict.controls}


def purity(
    change: dict[str, float], start: str = "pretrained", scheme: str = "random", seeds: int = 5,
    metric: str = "participation_ratio",
) -> list[dict[str, Any]]:  # fmt: skip
    """Return a measure that changes by a factor exp(change) over the sweep, by tower."""
    draw = np.random.default_rng(len(start + scheme + metric))
    return [
        {"start": start, "scheme": scheme, "rate": rate, "seed": seed, "tower": tower,
         "metric": metric,
         "value": 50 * math.exp(change[tower] * rate / 0.8 + (rate > 0) * draw.normal(0, 0.002))}
        for rate, seed, tower in itertools.product(RATES, range(seeds), TOWERS)
    ]  # fmt: skip


def scores(
    slopes: dict[str, float], start: str = "pretrained", scheme: str = "random", seeds: int = 5,
    metric: str = "acc1",
) -> list[dict[str, Any]]:  # fmt: skip
    """Return scores on sets that change by a slope times the rate, by set."""
    draw = np.random.default_rng(len(start + scheme + metric))
    return [
        {"start": start, "scheme": scheme, "rate": rate, "seed": seed, "evaluation_set": name,
         "protocol": "clip_benchmark", "metric": metric, "chance": 0.1, "n": 2000,
         "value": 0.7 + slope * rate + (rate > 0) * draw.normal(0, 0.001)}
        for rate, seed, (name, slope) in itertools.product(RATES, range(seeds), slopes.items())
    ]  # fmt: skip


PUBLISHED_LOG = math.log(36.7 / 144.8)
"""Change of the log of the directions that the published mean |cos| implies."""


def test_the_published_overlap_is_compared_as_directions() -> None:
    curve = published_directions()
    cosines = published.purity().set_index("shuffle_probability")["mean_abs_cosine"]
    squares = cosines**2 * math.pi / 2  # of normal cosines
    assert curve.tolist() == pytest.approx((512 / (1 + 511 * squares)).tolist(), rel=0.01)
    assert curve[0.8] == pytest.approx(directions_of_overlap(0.127, 512))
    assert math.log(curve.iloc[-1] / curve.iloc[0]) == pytest.approx(PUBLISHED_LOG, abs=0.02)


@pytest.mark.parametrize(
    ("text", "image", "outcome", "decides"),
    [
        (-1.0, -1.0, "supports", "text"),
        (-0.33, -1.4, "direction only", "text"),  # as measured on the shipped towers
        (0.0, -1.4, "no such effect", "text"),
        (-1.0, 1.0, "contradicts", "image"),
    ],
)
def test_overlap_needs_both_towers(text, image, outcome, decides) -> None:
    verdict = judged("overlap-rises", tables(purity=purity({"text": text, "image": image})))
    assert (verdict.outcome, verdict.decided_by) == (outcome, decides)
    assert verdict.bound == pytest.approx(THIRD * abs(PUBLISHED_LOG), rel=0.02)
    assert [rate.name for rate in verdict.rates] == [0.3, 0.8]


def test_the_random_start_is_judged_on_the_tower_of_the_claim() -> None:
    """What remains in the other tower, or in activations, does not count."""
    rows = [*purity({"text": -0.5, "image": -2.0}),
            *purity({"text": -0.02, "image": -2.0}, "reinitialised"),
            *purity({"text": 0.5, "image": 0.5}, metric="mean_abs_correlation"),
            *purity({"text": 0.4, "image": 0.0}, "reinitialised", metric="mean_abs_correlation"),
            *purity({"text": -0.45, "image": 0.0}, "without-decay")]  # fmt: skip
    verdict = judged("overlap-rises", tables(purity=rows))
    assert verdict.decided_by == "text"
    by_control = findings(verdict)
    assert by_control["Random start, norm × 1"] == "limits"
    assert by_control["Random start, norm × 1, correlation of activations"] == "does not limit"
    assert by_control["Without weight decay"] == "does not limit"
    assert by_control["Logit scale at its optimum"] == "not measured"


def test_a_solved_scale_that_did_not_converge_is_no_control() -> None:
    for converged, finding in ((1.0, "limits"), (0.0, "not measured")):
        flags = [
            {"start": "scale-converged", "scheme": "random", "rate": rate, "seed": 0,
             "metric": "logit_scale_converged", "value": converged}
            for rate in RATES
        ]  # fmt: skip
        start = "scale-converged"
        rows = [
            *purity({"text": -0.5, "image": -2.0}), *flags,
            *purity({"text": -0.01, "image": 0.0}, start),
            *purity({"text": 0.01, "image": 0.0}, start, metric="mean_abs_cosine"),
        ]  # fmt: skip
        verdict = judged("overlap-rises", tables(purity=rows))
        assert findings(verdict)["Logit scale at its optimum"] == finding


@pytest.mark.parametrize(
    ("similar", "outcome"), [(-0.3, "supports"), (-1.0, "no such effect"), (-1.7, "contradicts")]
)
def test_schemes_are_compared_at_the_largest_rate(similar: float, outcome: str) -> None:
    both = {"text": -1.0, "image": -1.0}
    rows = purity(both) + [
        row for row in purity(dict.fromkeys(TOWERS, similar), scheme="similar") if row["rate"]
    ]
    verdict = judged("similar-less", tables(purity=rows))
    assert verdict.outcome == outcome
    assert [rate.name for rate in verdict.rates] == [0.3, 0.8]
    assert judged("similar-less", tables(purity=purity(both))).outcome == "not measured"


SETS = {"a": -0.1, "b": -0.12, "c": -0.1, "d": -0.1}


def test_accuracy_is_judged_on_the_mean_of_the_sets() -> None:
    verdict = judged("accuracy-falls", tables(zeroshot=scores(SETS)))
    assert verdict.outcome == "supports"
    assert verdict.effect.value == pytest.approx(-0.084, abs=0.002)
    assert verdict.bound == pytest.approx(0.0279, abs=1e-3)
    limited = scores(SETS) + scores(dict.fromkeys(SETS, 0.0), "without-decay")
    by_control = findings(judged("accuracy-falls", tables(zeroshot=limited)))
    assert by_control["Without weight decay"] == "limits"


def test_effects_over_images_and_seeds_are_read_where_arms_were_compared() -> None:
    rows = [
        {"start": "pretrained", "scheme": "random", "rate": rate, "protocol": "clip_benchmark",
         "metric": metric, "reference": "rate 0", "evaluation_set": name, "value": value,
         "error": 0.004, "freedom": 5.2, "n": 7797, "seeds": 5}
        for rate, value in ((0.3, -0.005), (0.8, -0.06))
        for metric, name in (("acc1_difference_of_all_sets", None), ("acc1_difference", "a"))
    ]  # fmt: skip
    verdict = judged("accuracy-falls", tables(zeroshot=scores(SETS), comparisons=rows))
    assert (verdict.outcome, verdict.effect.freedom) == ("supports", 5.2)
    assert all(part in verdict.effect.replicates for part in ("7,797 images", "5 seeds", "5.2"))
    assert [(part.name, part.effect.value) for part in verdict.sets] == [("a", -0.06)]


def test_most_sets_against_the_mean_forbid_support() -> None:
    """One set that falls far does not carry four that rise."""
    slopes = {"colour": -1.2, "a": 0.04, "b": 0.04, "c": 0.04, "d": -0.1}
    for kept, outcome in ((slopes, "cannot tell"), ({"a": -0.1, "colour": -1.2}, "supports")):
        rows = scores(SETS) + scores(kept, metric="silhouette")
        assert judged("silhouette-falls", tables(zeroshot=rows)).outcome == outcome


def test_a_model_at_chance_decides_nothing() -> None:
    rows = [row | {"chance": 0.7} for row in scores(SETS)]
    for key in ("accuracy-falls", "silhouette-falls"):
        more = rows + scores(SETS, metric="silhouette")
        verdict = judged(key, tables(zeroshot=more))
        assert (verdict.outcome, verdict.measured.gate) == ("cannot tell", "at chance")


# Over arms --------------------------------------------------------------------------------------

RISES = {"pretrained": 0.4, "without-decay": 0.3, "scale-converged": 0.02, "scale-70": 0.6,
         "scale-10": 0.1}  # fmt: skip


def arms(slope: float, loss: float, rises: dict[str, float] = RISES) -> Tables:
    """Return arms whose accuracy falls by slope × rise of overlap + loss × C_m."""
    of_purity, of_scores = [], []
    for number, (start, rise) in enumerate(rises.items()):
        off = 1e-4 * (-1) ** number
        for tower, rate, seed in itertools.product(TOWERS, RATES, range(3)):
            here = {"start": start, "scheme": "random", "rate": rate, "seed": seed}
            of_purity.append(
                {**here, "tower": tower, "metric": "mean_abs_cosine", "value": 0.05 + rise * rate}
            )
            fall = (slope * rise + loss + off) * rate * (1 + 0.01 * seed)
            of_scores.append({**here, "evaluation_set": "a", "metric": "acc1", "value": 0.9 - fall})
    return tables(purity=of_purity, zeroshot=of_scores)


@pytest.mark.parametrize(
    ("slope", "loss", "outcome"),
    [(0.3, 0.0, "supports"), (0.0, 0.1, "no such effect"), (-0.3, 0.2, "contradicts")],
)
def test_the_loss_that_goes_with_overlap_is_over_arms(slope, loss, outcome) -> None:
    verdict = judged("accuracy-follows-overlap", arms(slope, loss))
    assert (verdict.outcome, verdict.effect.unit, verdict.effect.n) == (outcome, "arm", 5)
    moved = effects.changes(effects.points(arms(slope, loss), "text"))
    last = moved[moved["rate"] == 0.8].groupby("start")[["overlap", "accuracy"]].mean()
    line = stats.linregress(last["overlap"], last["accuracy"])
    assert verdict.effect.value == pytest.approx(line.slope * 0.32)
    assert verdict.effect.p == pytest.approx(line.pvalue)


def test_without_a_loss_or_with_two_arms_nothing_is_carried() -> None:
    verdict = judged("accuracy-follows-overlap", arms(-0.3, 0.0))
    assert (verdict.outcome, verdict.measured.gate) == ("cannot tell", "no cost")
    few = {name: RISES[name] for name in ("pretrained", "without-decay")}
    assert judged("accuracy-follows-overlap", arms(0.3, 0.0, few)).outcome == "not measured"


# The choice of a caption, and weights -----------------------------------------------------------


def compared(metric: str, value: float, start: str = "pretrained", reference: str = "rate 0"):
    protocol = "clip_benchmark" if metric.startswith("acc1") else "captions"
    return {
        "start": start, "scheme": "random", "rate": 0.8, "reference": reference,
        "protocol": protocol, "metric": metric, "value": value, "error": 0.004,
        "freedom": 500.0, "n": 1200,
    }  # fmt: skip


def chosen(at_chance: tuple[str, ...] = (), blind: float = 0.5) -> list[dict[str, Any]]:
    rows = []
    for rate in (0.0, 0.8):
        here = {"start": "pretrained", "scheme": "random", "rate": rate, "seed": 0, "n": 400,
                "evaluation_set": "pairs", "protocol": "captions", "chance": 0.5}  # fmt: skip
        rows += [{**here, "metric": "selection_acc", "value": 0.8},
                 {**here, "metric": "selection_blind", "value": blind}]  # fmt: skip
        rows += [
            {**here, "metric": "category_selection_acc", "classname": name,
             "value": 0.5 if name in at_chance else 0.9}
            for name in ("swap", "add")
        ]  # fmt: skip
    return rows


@pytest.mark.parametrize(
    ("value", "outcome"),
    [(-0.1, "supports"), (0.1, "contradicts"), (0.0, "no such effect"), (-0.02, "direction only")],
)
def test_choices_are_judged_by_the_smallest_effect_of_accuracy(value, outcome) -> None:
    rows = [compared("selection_difference_of_all_sets", value),
            compared("acc1_difference_of_all_sets", -0.1)]  # fmt: skip
    assert judged("composition-falls", tables(comparisons=rows)).outcome == outcome


@pytest.mark.parametrize("accuracy", [-0.1, 0.0])
@pytest.mark.parametrize("overlap", [-1.5, 0.0])
def test_a_fine_tuning_that_changes_nothing_shows_nothing(accuracy: float, overlap: float) -> None:
    """What changes shows that the training had the power to; what does not change is absent."""
    row = compared("acc1_difference_of_all_sets", accuracy)
    found = tables(comparisons=[row], purity=purity(dict.fromkeys(TOWERS, overlap)))
    nothing = accuracy == overlap == 0
    for key, value in {"overlap-rises": overlap, "accuracy-falls": accuracy}.items():
        verdict = judged(key, found)
        if value:
            assert verdict.outcome == "supports"
        else:
            assert verdict.outcome == ("cannot tell" if nothing else "no such effect")
            assert verdict.measured.gate == ("no response" if nothing else "")


def test_categories_at_chance_and_blind_words_limit_the_choice() -> None:
    row = compared("selection_difference_of_all_sets", -0.1)
    for at_chance, blind, expected in (
        ((), 0.5, ("does not limit", "does not limit")),
        (("swap",), 0.7, ("limits", "limits")),
    ):
        verdict = judged(
            "composition-falls", tables(comparisons=[row], zeroshot=chosen(at_chance, blind))
        )
        assert tuple(findings(verdict).values()) == expected
    everywhere = chosen(("swap", "add"))
    verdict = judged("composition-falls", tables(comparisons=[row], zeroshot=everywhere))
    assert (verdict.outcome, verdict.measured.gate) == ("cannot tell", "at chance")


@pytest.mark.parametrize(
    ("cost", "gain", "outcome"),
    [(-0.06, None, "not measured"), (-0.06, 0.05, "supports"), (-0.06, 0.0, "no such effect"),
     (0.0, 0.05, "cannot tell")],
)  # fmt: skip
def test_what_weights_give_back(cost, gain, outcome) -> None:
    metric = "acc1_difference_of_all_sets"
    rows = [compared(metric, cost)]
    if gain is not None:
        rows.append(compared(metric, gain, "audit-weighted", "not weighted"))
    assert judged("weights-help", tables(comparisons=rows)).outcome == outcome


@pytest.mark.parametrize(("gain", "outcome"), [(0.05, "supports"), (-0.05, "contradicts")])
def test_schemes_are_compared_by_image_and_seed(gain, outcome) -> None:
    row = {**compared("acc1_difference_of_all_sets", gain, reference="scheme random"),
           "scheme": "similar"}  # fmt: skip
    verdict = judged("similar-harms-less", tables(comparisons=[row]))
    assert (verdict.outcome, verdict.measured.effect.value) == (outcome, gain)
    assert verdict.measured.effect.unit == IMAGE_AND_SEED


# What neurons stand for -------------------------------------------------------------------------


def semantics(
    own: float, start: str = "untouched", rotated: float = -0.1, deviation: float = 0.04,
    purity_of_basis: float = 0.4, rotations: float = 50,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return rank correlations of neurons in their own basis and in rotated ones."""
    rows = []
    for tower, measure in itertools.product(TOWERS, MEASURES):
        here = {"start": start, "tower": tower, "seed": 0, "metric": f"{measure}_by_overlap"}
        if start != "untouched":
            here |= {"scheme": "random", "rate": 0.8}
        null = {"basis": "rotated", "deviation": deviation, "rotations": rotations}
        rows += [{**here, "basis": "original", "value": own}, {**here, "value": rotated} | null]
        mean = here | {"metric": f"mean_{measure}"}
        rows += [{**mean, "basis": "original", "value": purity_of_basis},
                 {**mean, "value": 0.4} | null | {"deviation": 0.01}]  # fmt: skip
    return rows


@pytest.mark.parametrize(
    ("own", "at_largest", "outcome", "decides"),
    [
        (-0.6, -0.6, "supports", "untouched"),
        (-0.6, -0.1, "no such effect", "largest C_m"),  # as much in rotated bases
        (-0.1, -0.6, "no such effect", "untouched"),
        (0.5, -0.6, "contradicts", "untouched"),
    ],
)
def test_overlap_shows_features_only_beyond_rotated_bases(own, at_largest, outcome, decides):
    of = tables(semantics=semantics(own) + semantics(at_largest, "pretrained"))
    verdict = judged("construct-validity", of)
    assert (verdict.outcome, verdict.decided_by) == (outcome, decides)
    assert verdict.effect.unit == "rotated basis"
    assert len(verdict.sets) == 4


def test_the_error_of_the_rank_correlation_is_that_of_one_more_rotation() -> None:
    verdict = judged("construct-validity", tables(semantics=semantics(-0.3)))
    one = 0.04 * math.sqrt(1 + 1 / 50)
    assert verdict.measured.parts == {}  # those of the part that decides
    untouched = claims.RankCorrelation("untouched")(tables(semantics=semantics(-0.3)), 0.95)
    assert untouched.effect.error == pytest.approx(math.hypot(one, one) / 2)
    assert untouched.effect.value == pytest.approx(-0.2)
    assert (untouched.last, untouched.first) == (pytest.approx(-0.3), pytest.approx(-0.1))


@pytest.mark.parametrize(
    ("gain", "gate"), [(0.0, "no basis"), (0.1, ""), (-0.1, "no basis"), (0.01, "no basis")]
)
def test_the_own_basis_is_one_more_rotation_under_the_null(gain, gate) -> None:
    of = tables(semantics=semantics(0.0, purity_of_basis=0.4 + gain))
    effect = own_basis_gain(of, "text", 0.95)
    assert effect.value == pytest.approx(gain)
    half = stats.t.ppf(0.975, 49) * 0.01 * np.sqrt(1 + 1 / 50)
    assert effect.high - effect.value == pytest.approx(half)
    assert no_own_basis(of, "text", 0.95) == gate
    assert no_own_basis(tables(), "text", 0.95) == ""


@pytest.mark.parametrize(
    ("text", "image", "outcome"),
    [(-0.1, -0.1, "supports"), (0.0, -0.1, "no such effect"), (-0.015, -0.1, "direction only")],
)
def test_mixing_is_judged_by_what_neurons_follow(text, image, outcome) -> None:
    rows = [
        {"start": "pretrained", "scheme": "random", "rate": rate, "seed": seed, "tower": tower,
         "basis": basis, "metric": "mean_semantic_purity",
         "value": 0.4 + moved * rate / 0.8 + 1e-4 * seed * (rate > 0)}
        for rate, seed, (tower, moved), basis in itertools.product(
            RATES, range(3), {"text": text, "image": image}.items(), ("original", "rotated"))
    ]  # fmt: skip
    verdict = judged("neurons-mix", tables(semantics=rows))
    assert (verdict.outcome, verdict.bound) == (outcome, SMALLEST_GAIN)
    expected = "cannot tell" if outcome == "no such effect" else "limits"
    assert findings(verdict) == {"Randomly rotated bases": expected}


def test_the_untouched_model_is_no_fine_tuning() -> None:
    change = dict.fromkeys(TOWERS, -0.3)
    untouched = [{**row, "rate": math.nan} for row in purity(change, "untouched", seeds=1)[:1]]
    (note,) = pages.summary(tables(purity=[*purity(change), *untouched]))
    assert note.values["arms"] == len(RATES)


@pytest.mark.parametrize("image", [-0.005, -0.03])
def test_a_change_that_is_small_in_one_tower_alone_is_not_called_slight(image: float) -> None:
    draw = np.random.default_rng(2)
    rows = [
        {"start": "pretrained", "scheme": "random", "rate": rate, "seed": seed, "tower": tower,
         "metric": "mean_semantic_purity", "basis": "original",
         "value": 0.4 + change * (rate > 0) + draw.normal(0, 0.0005)}
        for (tower, change), rate, seed in itertools.product(
            {"text": -0.006, "image": image}.items(), (0.0, 0.8), range(5))
    ]  # fmt: skip
    of = tables(semantics=rows)
    (question,) = (each for each in claims.QUESTIONS if each.key == "mixing")
    answer = questions.answered("image_text", question, [judged("neurons-mix", of)], of, 0.95)
    assert ("slightly" in answer.finding) == (image > -0.02)
    assert ("image" in answer.limit) == (image < -0.02)
