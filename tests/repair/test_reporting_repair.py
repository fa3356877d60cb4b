"""Claims, tables and figures of the repair on made-up arms whose effects are known."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mispair.evaluation.report.rows import smallest_overlap
from mispair.pairs.report.contact_sheet import LARGEST_SHEET
from mispair.repair.captioners.faults import LEAST_TO_TEST, NOT_BETTER
from mispair.repair.report import claims, figures, pages
from mispair.repair.steps import draw_examples
from mispair.report import questions, texts
from mispair.report.charts import Hole
from mispair.report.judge import Verdict, judge
from mispair.report.table import printed as shown
from mispair.report.table import whole
from mispair.report.tables import Tables, tidy
from mispair.report.texts import Note
from tests.review.made_up_draw import jpeg

ACCURACY = {"raw": 0.80, "oracle": 0.89, "factor": 0.87, "drop": 0.81, "all": 0.86}
DIRECTIONS = {"raw": 40.0, "oracle": 52.0, "factor": 50.0, "drop": 42.0, "all": 48.0}
SEEDS = range(5)
OTHERS = {"raw": ("oracle",), "factor": ("raw", "drop", "all")}


def made_up(
    accuracy: Mapping[str, float] = ACCURACY,
    directions: Mapping[str, float] = DIRECTIONS,
    rate: float = 0.8,
    known: bool = True,
) -> Tables:
    """Return tables of arms; differences between them have a standard error of 0.005."""
    noise = np.random.default_rng(0).normal(0, 0.01, 5)
    here = {"scheme": "random", "rate": rate}
    arms: list[dict[str, Any]] = [
        {**here, "rule": rule, "seed": seed, "metric": "acc1", "evaluation_set": "one",
         "protocol": "clip_benchmark", "value": value}
        for rule, value in accuracy.items() for seed in SEEDS
    ]  # fmt: skip
    arms += [
        {**here, "rule": rule, "seed": seed, "tower": tower, "metric": metric,
         "value": factor * value * math.exp((1 + len(rule) / 20) * noise[seed])}
        for rule, value in directions.items() for seed in SEEDS for tower in ("text", "image")
        for metric, factor in (("participation_ratio", 1), ("mean_abs_cosine", 0.002))
    ]  # fmt: skip
    differences = [
        {**here, "rule": rule, "reference": other, "protocol": "clip_benchmark",
         "metric": "acc1_difference_of_all_sets", "value": accuracy[rule] - accuracy[other],
         "error": 0.005, "freedom": 40, "n": 1000}
        for rule in accuracy for other in OTHERS.get(rule, ("raw",)) if other in accuracy
    ]  # fmt: skip
    before = ("wrong" if rate else "right") if known else "own"
    ledger = [
        {**here, "rule": rule, "seed": seed, **row}
        for rule in accuracy
        for seed in SEEDS
        for row in (
            {"metric": "read", "value": 10}, {"metric": "kept", "value": 4},
            {"metric": "replaced", "value": 6}, {"metric": "dropped", "value": 0},
            {"metric": "failed", "value": 0},
            {"metric": "pairs", "before": before, "after": "right" if known else "replaced",
             "value": 6},
            {"metric": "pairs", "before": "right" if known else "own",
             "after": "right" if known else "own", "value": 4},
        )
    ]  # fmt: skip
    return Tables(
        {
            "repaired_arms": tidy("repaired_arms", arms),
            "repair_differences": tidy("repair_differences", differences),
            "repairs": tidy("repairs", ledger),
        }
    )


def both(first: Tables, second: Tables) -> Tables:
    """Return the rows of two runs at different rates."""
    names = ("repaired_arms", "repair_differences", "repairs")
    return Tables(
        {name: pd.concat([first.frames[name], second.frames[name]], ignore_index=True)
         for name in names}
    )  # fmt: skip


def judged(tables: Tables) -> dict[str, Verdict]:
    return {claim.key: judge(claim, tables, 0.95) for claim in claims.CLAIMS}


def answers(tables: Tables) -> dict[str, questions.Answer]:
    verdicts = [*judged(tables).values()]
    return {
        asked.key: questions.answered("repair", asked, verdicts, tables, 0.95)
        for asked in claims.QUESTIONS
    }


def test_nothing_measured_is_no_verdict() -> None:
    assert isinstance(figures.repair_by_rule(Tables({})), Hole)
    assert pages.PAGES.tables(Tables({}), 0.95) == []
    assert not any(answer.measured for answer in answers(Tables({})).values())


@pytest.mark.parametrize(
    ("rule", "value", "claim", "outcome"),
    [("factor", 0.87, "repair-accuracy", "supports"),
     ("factor", 0.812, "repair-accuracy", "direction only"),
     ("factor", 0.80, "repair-accuracy", "no such effect"),
     ("factor", 0.74, "repair-accuracy", "contradicts"),
     ("drop", 0.81, "repair-replacing", "supports"),
     ("drop", 0.87, "repair-replacing", "no such effect"),
     ("drop", 0.93, "repair-replacing", "contradicts"),
     ("all", 0.86, "repair-filter-not-worse", "supports"),
     ("all", 0.88, "repair-filter-not-worse", "cannot tell"),
     ("all", 0.93, "repair-filter-not-worse", "contradicts")],
)  # fmt: skip
def test_each_claim_on_accuracy_can_come_out_either_way(rule, value, claim, outcome) -> None:
    verdict = judged(made_up({**ACCURACY, rule: value}))[claim]
    assert verdict.outcome == outcome
    assert abs(verdict.bound) == claims.POINT


def test_the_bound_does_not_depend_on_what_wrong_captions_cost() -> None:
    """A third of a cost of 0.018 with an error of 0.005 was a bound between 0.003 and 0.009."""
    for oracle in (0.818, 0.84, 0.95):
        verdict = judged(made_up({**ACCURACY, "oracle": oracle}))["repair-filter-not-worse"]
        assert verdict.bound == -claims.POINT


@pytest.mark.parametrize(
    ("factor", "image", "outcome"),
    [(50.0, 50.0, "supports"), (40.0, 50.0, "no such effect"), (34.0, 50.0, "contradicts"),
     (50.0, 34.0, "contradicts"), (44.0, 50.0, "direction only")],
)  # fmt: skip
def test_overlap_is_judged_in_logs_of_directions_and_in_both_towers(factor, image, outcome) -> None:
    made = made_up(directions={**DIRECTIONS, "factor": factor})
    arms = made.repaired_arms
    chosen = (arms["tower"] == "image") & (arms["rule"] == "factor")
    arms.loc[chosen, "value"] *= image / factor
    verdict = judged(made)["repair-overlap"]
    assert verdict.outcome == outcome
    assert verdict.bound == pytest.approx(smallest_overlap())
    values = {part.name: part.effect.value for part in verdict.parts}
    assert values == pytest.approx(
        {"text": math.log(factor / 40), "image": math.log(image / 40)}, abs=0.01
    )


def test_where_right_captions_are_no_better_nothing_can_be_given_back() -> None:
    free = judged(made_up({**ACCURACY, "oracle": ACCURACY["raw"]}))
    assert (free["repair-accuracy"].outcome, free["repair-accuracy"].measured.gate) == (
        "cannot tell", "no cost",
    )  # fmt: skip
    assert free["repair-overlap"].outcome == "supports"


def test_own_data_without_right_captions_are_judged() -> None:
    """README's example: captions as they are, no oracle, and the rule of the audit."""
    own = {"raw": 0.80, "factor": 0.83, "drop": 0.81, "posterior": 0.86}
    tables = made_up(own, {}, rate=0.0, known=False)
    found = judged(tables)
    assert found["repair-accuracy"].outcome == "supports"
    assert found["repair-accuracy"].effect.value == pytest.approx(0.03)
    assert found["repair-harmless"].outcome == "not measured"
    answer = answers(tables)["repair"]
    assert answer.measured
    posterior = answer.numbers["others"]["posterior"]
    assert posterior.value == pytest.approx(0.06)
    assert "+6.0" in answer.sentence
    assert not math.isfinite(answer.numbers["cost"].value)
    alone = made_up({"raw": 0.80, "posterior": 0.86}, {}, rate=0.0, known=False)
    assert judged(alone)["repair-accuracy"].effect.value == pytest.approx(0.06)
    assert answers(alone)["repair"].numbers["filter"] == "posterior"


@pytest.mark.parametrize("neurons_of_drop", [50.0, 20.0])
def test_a_fine_tuning_that_no_rule_changes_shows_nothing(neurons_of_drop: float) -> None:
    """That the filter changes little is shown where the choice of captions can change much."""
    directions = {**dict.fromkeys(DIRECTIONS, 50.0), "drop": neurons_of_drop}
    found = judged(made_up(dict.fromkeys(ACCURACY, 0.8), directions, known=False))
    absent = "no such effect" if neurons_of_drop < 50 else "cannot tell"
    assert found["repair-accuracy"].outcome == absent
    level = found["repair-filter-not-worse"]
    assert level.outcome == ("supports" if neurons_of_drop < 50 else "cannot tell")
    assert level.measured.gate == ("" if neurons_of_drop < 50 else "no response")


def test_captions_that_are_known_to_be_right_have_no_cost() -> None:
    tables = made_up({"raw": 0.80, "factor": 0.83}, {}, rate=0.0)
    assert judged(tables)["repair-accuracy"].measured.gate == "no cost"


@pytest.mark.parametrize(
    ("factor", "outcome"), [(0.889, "supports"), (0.885, "cannot tell"), (0.86, "contradicts")]
)
def test_right_captions_are_judged_at_rate_0(factor: float, outcome: str) -> None:
    clean = made_up({"raw": 0.89, "factor": factor}, {}, rate=0.0)
    assert judged(both(made_up(), clean))["repair-harmless"].outcome == outcome


def test_a_lower_rate_that_loses_accuracy_forbids_support() -> None:
    loses = made_up({**ACCURACY, "factor": 0.75}, rate=0.5)
    verdict = judged(both(made_up(), loses))["repair-accuracy"]
    assert {part.name: part.outcome for part in verdict.rates} == {
        0.5: "contradicts", 0.8: "supports",
    }  # fmt: skip
    assert verdict.outcome == "cannot tell"


def test_controls_limit_what_needs_no_filter_or_no_new_captions() -> None:
    def of_accuracy(table: Tables) -> dict[str, str]:
        controls = judged(table)["repair-accuracy"].controls
        return {found.control.key: found.finding for found in controls}

    names = ("As many captions replaced at random", "Trusted pairs alone",
             "Pairs dropped in place of replaced")  # fmt: skip
    for accuracy, findings in (
        ({"random-replaced": 0.87, "trusted-alone": 0.81},
         ("limits", "does not limit", "does not limit")),
        ({}, ("not measured", "not measured", "does not limit")),
        ({"drop": 0.87}, ("not measured", "not measured", "limits")),
    ):  # fmt: skip
        assert of_accuracy(made_up(ACCURACY | accuracy)) == dict(zip(names, findings, strict=True))
    assert judged(made_up())["repair-overlap"].limited == ()
    as_well = judged(made_up(directions={**DIRECTIONS, "drop": 50.0}))["repair-overlap"]
    assert len(as_well.limited) == 2


def test_tables_and_figures_hold_the_numbers() -> None:
    tables = made_up()
    arms, ledger = pages.PAGES.tables(tables, 0.95)
    (row,) = (row for row in ledger.rows if row[0] == claims.LABELS["factor"])
    cells = dict(zip(ledger.heads, row, strict=True))
    expected = {"read": 10, "kept": 4, "replaced": 6, "failed": 0, "repaired": 6, "harmed": 0}
    assert {head: cells[head] for head in expected} == {k: whole(n) for k, n in expected.items()}
    gains = {row[0]: row[-1] for row in arms.rows}
    assert gains[claims.LABELS["raw"]] is None
    assert gains[claims.LABELS["factor"]].value == pytest.approx(7, abs=0.5)
    drawing = figures.repair_by_rule(tables)
    means = drawing.data[drawing.data["layer"] == "mean"].set_index(["measure", "rule"])["value"]
    assert means["accuracy"].to_dict() == pytest.approx(ACCURACY)


def test_new_captions_that_do_not_repair_are_counted_where_the_truth_is_known() -> None:
    rows = [
        {"rule": "factor", "scheme": "random", "rate": 0.8, "seed": seed, **row}
        for seed in (0, 1)
        for row in (
            {"metric": "replaced", "value": 8.0},
            {"metric": "pairs", "before": "wrong", "after": "right", "value": 6.0},
            {"metric": "pairs", "before": "wrong", "after": "wrong", "value": 3.0},
        )
    ]
    tables = Tables({"repairs": tidy("repairs", rows)})
    assert claims.share_untrue(tables, 0.8, "factor") == pytest.approx(0.25)
    assert math.isnan(claims.share_untrue(tables, 0.8, "drop"))
    answer = answers(made_up())["repair"]
    assert answer.numbers["untrue"] == 0
    assert math.isnan(answers(own_data())["repair"].numbers["untrue"])


OWN = {"raw": 0.80, "factor": 0.83, "drop": 0.81, "posterior": 0.86}


def own_data(rate: float = 0.0, accuracy: Mapping[str, float] = OWN) -> Tables:
    """Return tables of own data, with what the audit expects of the rule posterior."""
    made = made_up(accuracy, {}, rate=rate, known=False)
    here = {"rule": "posterior", "scheme": "random", "rate": rate, "seed": 0}
    rows = [
        {**here, "metric": "expected_pairs", "before": before, "after": after, "value": value}
        for before, after, value in (
            ("wrong", "replaced", 20.0), ("right", "replaced", 5.0), ("wrong", "kept", 1.0),
            ("right", "kept", 4.0),
        )
    ]  # fmt: skip
    return made.replace(repairs=pd.concat([made.repairs, tidy("repairs", rows)], ignore_index=True))


EXPECTED = texts.text(Note("repair", "table_ledger", kind="expected"))


def printed(tables: Tables) -> str:
    """Return every sentence and cell of the repair."""
    made = pages.PAGES.tables(tables, 0.95)
    cells = [shown(cell) for table in made for row in (table.heads, *table.rows) for cell in row]
    cells += [text for table in made for text in (table.caption, table.remark)]
    for drawing in (figures.repair_by_rule(tables), figures.small_repair(tables)):
        cells += drawing.data["label"].tolist()
    for answer in answers(tables).values():
        cells += [answer.sentence, answer.limit, answer.advice]
    return "\n".join([*cells, *map(texts.text, pages.PAGES.summary(tables))])


@pytest.mark.parametrize("gain", [0.06, 0.0, -0.05])
@pytest.mark.parametrize("others", [("factor", "drop"), ("all", "random-replaced"), ()])
def test_nothing_of_own_data_assumes_that_its_captions_are_right(others, gain) -> None:
    """Whichever rules ran, and whether they helped or did not."""
    found = {"raw": 0.80, **dict.fromkeys(others, 0.81), "posterior": 0.80 + gain}
    text = printed(own_data(accuracy=found)).replace(EXPECTED, "")
    for word in ("rate 0", "swapped", "own", "right captions", "cost nothing", "shuffled"):
        assert word not in text.replace("known", ""), word
    assert ("posterior (60 % of the pairs)" if "factor" in others else "60 % of pairs") in text


@pytest.mark.parametrize("rate", [0.8, 0.0])
def test_a_rate_is_of_the_untrusted_captions_wherever_it_is_named(rate: float) -> None:
    """Captions of trusted pairs stay, so it is not the share of all captions."""
    tables = made_up(rate=rate)
    words = texts.text(Note("repair", "at_rate", rate=rate))
    assert ("80 % of untrusted captions" in words) == (rate > 0)
    drawing = figures.repair_by_rule(tables)
    axis = words[:1].upper() + words[1:]
    assert f"'title': {figures.wrap(axis, figures.LONGEST_LINE)}" in str(drawing.chart.to_dict())
    found = [*printed(tables).splitlines(), axis]
    named = [text for text in found if "shuffled" in text or "as they are" in text]
    assert len(named) >= 4  # both tables, the answer, the axis
    assert [text for text in named if words not in text and axis not in text] == []


def ledger_of(rule: str, action: str, nominal: str = "0", number: int = 12) -> dict[str, Any]:
    """Return the metadata of a ledger with old and new captions."""
    samples = ["random"] * number + ["best"] * 6 + ["worst"] * 6
    shown = [
        {"sample": sample, "key": f"k{place}", "old": "<b>a|b</b>", "new": rule, "action": action}
        for place, sample in enumerate(samples)
    ]
    return {"repair": rule, "nominal": nominal, "examples": shown}


def test_examples_are_those_of_the_first_filter_that_replaced_captions() -> None:
    kept, late = ledger_of("factor", "kept"), ledger_of("all", "replaced", "0.5")
    assert draw_examples.chosen([kept, late]).rule == "all"
    first = draw_examples.chosen(
        [late, ledger_of("all", "replaced"), ledger_of("factor", "replaced")]
    )
    assert (first.rule, first.rate) == ("factor", 0.0)
    assert draw_examples.chosen([kept, {"repair": "raw", "nominal": "0"}]).rule == "factor"
    assert draw_examples.chosen([{"repair": "raw", "nominal": "0", "examples": []}]) is None


def test_every_example_has_its_picture_whatever_the_pictures_weigh() -> None:
    shown = draw_examples.chosen([ledger_of("factor", "replaced")])
    images = {f"k{place}": jpeg(200, place) for place in range(1, 24)}
    html = draw_examples.fragment(shown, images)
    assert len(html.encode()) <= LARGEST_SHEET
    assert html.count('<img src="data:image/jpeg') == 23
    assert html.count("noimage") == 1
    assert html.count("&lt;b&gt;a|b&lt;/b&gt;") == 24
    assert "<b>a|b" not in html
    assert html.count("<section") == 3
    assert "hole" in draw_examples.fragment(None, {})


def test_expected_numbers_of_own_data_are_marked() -> None:
    _, ledger = pages.PAGES.tables(own_data(), 0.95)
    rows = {row[0]: dict(zip(ledger.heads, row, strict=True)) for row in ledger.rows}
    posterior, factor = (rows[claims.LABELS[rule]] for rule in ("posterior", "factor"))
    for state, pairs in (("wrong", 20), ("right", 5)):
        head = f"{state}, replaced (expected)"
        assert posterior[head] == whole(pairs / len(SEEDS))
        assert factor[head] is None
    plain = made_up(OWN, {}, rate=0.0, known=False)
    assert pages.PAGES.tables(plain, 0.95)[1].heads[-1] == "failed"


def test_expected_numbers_of_an_assumed_share_are_marked() -> None:
    tables, remarks = own_data(), {}
    for identified in ("limit", "interval"):
        origin = {"artefact": "repair", "key": "identified", "text": identified}
        told = tables.replace(provenance=tidy("provenance", [origin]))
        remarks[identified] = pages.PAGES.tables(told, 0.95)[1].remark
    assert remarks["interval"] == EXPECTED
    assert remarks["limit"] == texts.text(Note("repair", "table_ledger", kind="assumed"))
    assert remarks["limit"] != EXPECTED


def test_the_oracle_of_own_data_is_not_called_right() -> None:
    same = {**OWN, "oracle": OWN["raw"]}
    tables = own_data(0.5, same)
    verdict = judged(tables)["repair-accuracy"]
    assert verdict.measured.gate == ""
    assert "right captions" not in printed(tables).replace(EXPECTED, "").lower()


@pytest.mark.parametrize("rules", [("drop",), ("all",), ("random-replaced",), ("posterior",)])
def test_the_first_page_names_the_repair_whichever_rules_ran(rules: tuple[str, ...]) -> None:
    tables = made_up({rule: 0.8 for rule in ("raw", *rules)}, {}, rate=0.0, known=False)
    (note,) = pages.PAGES.summary(tables)
    assert f"{note.values['pairs']:,.0f} pairs" in texts.text(note)


def test_a_captioner_that_was_not_used_is_reported() -> None:
    made = made_up(OWN, {}, rate=0.0, known=False)
    here = {"rule": "factor", "scheme": "random", "rate": 0.0, "seed": 0}
    rows = [
        {**here, "metric": "held_out_cosine", "captions": name, "value": value, "n": 30}
        for name, value in (("captioner", 0.043), ("typical", 0.192))
    ]
    assert pages.PAGES.limits(made) == []
    rows.append({**here, "metric": "failed_reason", "reason": NOT_BETTER, "value": 9})
    table = pd.concat([made.repairs, tidy("repairs", rows)], ignore_index=True)
    (note,) = pages.PAGES.limits(made.replace(repairs=table))
    assert note.values == {"captioner": 0.043, "typical": 0.192, "pairs": 30}
    assert "use_if_not_better" in texts.text(note)


def test_a_captioner_that_was_not_tested_is_reported() -> None:
    made = made_up(OWN, {}, rate=0.0, known=False)
    here = {"rule": "factor", "scheme": "random", "rate": 0.0, "seed": 0}
    row = {**here, "metric": "held_out_cosine", "captions": "untested", "n": 0}
    table = pd.concat([made.repairs, tidy("repairs", [row])], ignore_index=True)
    (note,) = pages.PAGES.limits(made.replace(repairs=table))
    assert note.values == {"needed": LEAST_TO_TEST}
    assert str(LEAST_TO_TEST) in texts.text(note)


def test_labels_of_replaced_captions_are_a_table() -> None:
    rows = [
        {"metric": "compared_labels", "value": 40, "n": 100},
        {"metric": "compared_improved", "value": 0.7, "low": 0.55, "high": 0.82, "n": 40},
        {"metric": "compared_harmed", "value": 0.05, "low": 0.01, "high": 0.16, "n": 40},
    ]
    (table,) = pages._compared(tidy("repairs_compared", rows))
    assert [(row[1].value, row[2].low, row[2].high) for row in table.rows] == [
        (0.7, 0.55, 0.82), (0.05, 0.01, 0.16)
    ]  # fmt: skip
    assert pages._compared(tidy("repairs_compared", [])) == []
    unanswered = [{"metric": "compared_improved", "value": None, "n": 0}]
    assert pages._compared(tidy("repairs_compared", unanswered)) == []
