"""Claims and sentences on the audit, and numbers in its figures, on made-up trials."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import special, stats
from sklearn.metrics import average_precision_score, roc_auc_score

from mispair.audit.probability import reliability
from mispair.audit.report import claims, figures, pages
from mispair.audit.report import pages as printed
from mispair.report import questions, rules, texts
from mispair.report.charts import Drawing, Hole
from mispair.report.judge import Verdict, judge
from mispair.report.tables import Tables, tidy
from mispair.report.texts import Note

SHARES = (0.1, 0.3, 0.8)


def rates(
    scheme: str = "random", scorer: str = "untouched", method: str = "trusted",
    error: float = 0.0, width: float = 0.01,
) -> list[dict[str, Any]]:  # fmt: skip
    return [
        {"scheme": scheme, "injected": share, "made": share, "scorer": scorer, "method": method,
         "metric": "rate", "value": share + error, "low": share + error - width,
         "high": share + error + width, "n": 10_000}
        for share in SHARES
    ]  # fmt: skip


def limits(scheme: str = "random", scorer: str = "untouched", error: float = 0.0) -> Any:
    """Return estimates without trusted pairs, which have no lower limit."""
    return [
        {**row, "low": math.nan}
        for method in ("mixture", "storey")
        for row in rates(scheme, scorer, method, error=error)
    ]


TRIED = [*rates(), *limits()]
GATE = "unknown truth"


def made_up(*parts: list[dict[str, Any]], refused: str = "", right: bool = True) -> Tables:
    origin = [{"artefact": "audit", "key": "refused", "text": refused},
              {"artefact": "calibration", "key": "right", "text": str(right)}]  # fmt: skip
    return Tables(
        {"audit_calibration": tidy("audit_calibration", [row for part in parts for row in part]),
         "provenance": tidy("provenance", origin)}
    )  # fmt: skip


def judged(tables: Tables) -> dict[str, Verdict]:
    return {claim.key: judge(claim, tables, 0.95) for claim in claims.CLAIMS}


@pytest.mark.parametrize(
    ("error", "width", "outcome"),
    [
        (0.005, 0.01, "supports"),
        (0.0, 0.03, "cannot tell"),  # exact, but too wide to show it
        (0.015, 0.02, "cannot tell"),
        (-0.05, 0.02, "contradicts"),
    ],
)
def test_an_estimate_is_near_if_its_interval_is(error: float, width: float, outcome: str) -> None:
    verdict = judged(made_up(rates(error=error, width=width), limits()))["audit-estimates"]
    assert verdict.outcome == outcome
    assert verdict.bound == claims.NEAR
    assert {part.name for part in verdict.parts} == {"0.1", "0.3", "0.8"}
    for part in verdict.parts:
        assert part.effect.value == pytest.approx(error)
        assert part.effect.high - part.effect.low == pytest.approx(2 * width)


@pytest.mark.parametrize(
    ("tables", "gate"),
    [
        (made_up(rates(error=0.2), limits(), right=False), "unknown truth"),
        (made_up(rates(error=0.2), limits(), refused="The model cannot tell."), "refused"),
        (made_up(limits(error=0.2)), "refused"),  # trusted pairs gave no estimate
    ],
)
def test_estimates_are_not_judged_where_nothing_can_be_compared(tables: Tables, gate: str) -> None:
    """Own captions may be wrong: a false base rate on both sides once gave "supports"."""
    verdict = judged(tables)["audit-estimates"]
    assert (verdict.outcome, verdict.measured.gate) == ("cannot tell", gate)


@pytest.mark.parametrize(
    ("memorised", "fitted", "outcome", "limited"),
    [(-0.05, 0.0, "supports", False), (-0.05, -0.05, "supports", True),
     (0.0, 0.0, "no such effect", False), (0.05, 0.0, "contradicts", False)],
)  # fmt: skip
def test_what_was_memorised_looks_cleaner(memorised, fitted, outcome, limited) -> None:
    verdict = judged(
        made_up(limits(scorer="memorised", error=memorised),
                limits(scorer="cross-fitted", error=fitted))
    )["audit-memorised"]  # fmt: skip
    assert (verdict.outcome, bool(verdict.limited)) == (outcome, limited)
    assert verdict.effect.value == pytest.approx(-memorised)
    error = 0.01 / stats.norm.ppf(0.95)
    assert verdict.effect.error == pytest.approx(error)
    assert {part.name for part in verdict.rates} == {*SHARES}


@pytest.mark.parametrize(
    ("refused", "right", "power", "gate"),
    [("No.", True, 0.9, "refused"), ("", False, 0.9, "unknown truth"), ("", True, 0.6, "refused")],
)
def test_a_model_that_cannot_judge_does_not_contradict(refused, right, power, gate) -> None:
    """A weak model takes right captions for wrong ones, so its corpus looks less clean."""
    parts = limits(scorer="memorised", error=0.05), limits(scorer="cross-fitted")
    wins = tidy("audit", [{"metric": "power", "value": power, "low": power, "high": math.nan}])
    tables = made_up(*parts, refused=refused, right=right).replace(audit=wins)
    verdict = judged(tables)["audit-memorised"]
    assert (verdict.outcome, verdict.measured.gate) == ("cannot tell", gate)


def test_similar_captions_need_pairs_known_to_be_right() -> None:
    seen = rates("similar", method="similar", error=0.01)
    blind = [{**row, "value": 0.0, "high": 0.01} for row in limits("similar")]
    found = judged(made_up(seen, blind))["audit-similar"]
    assert (found.outcome, found.limited) == ("supports", ())
    seeing = judged(made_up(seen, limits("similar")))["audit-similar"]
    assert seeing.limited == ("Ranks among random captions",)
    assert judged(made_up(seen, blind, right=False))["audit-similar"].outcome == "cannot tell"


def corpus(refused: str = "", **metrics: tuple[float, float, float]) -> Tables:
    rows = [
        {"metric": name, "value": value, "low": low, "high": high}
        for name, (value, low, high) in metrics.items()
    ]
    return made_up(TRIED, refused=refused).replace(audit=tidy("audit", rows))


def headline(tables: Tables) -> str:
    return texts.joined(pages.headline(tables))


def details(tables: Tables) -> str:
    return texts.text(Note("audit", "page_details", n=claims.numbers(tables)))


def test_only_pairs_known_to_be_right_give_a_lower_limit() -> None:
    alone = headline(corpus(wrong_captions=(0.13, 0.12, 0.15)))
    assert ("15 %" in alone, "12 %" in alone) == (True, False)
    share = (0.13, 0.12, 0.15)
    trusted = headline(corpus(wrong_captions=share, trusted=share))
    assert ("15 %" in trusted, "12 %" in trusted) == (True, True)
    assert "0.04 %" in headline(corpus(wrong_captions=(0.0, 0.0, 0.0004)))
    assert headline(corpus("Refused.")) == "Refused."
    assert pages.headline(corpus()) == []


@pytest.mark.parametrize(
    ("low", "high", "named"),
    [(0.06, 0.14, "6.0 % and 14 %"), (0.0, 0.05, "5.0 %"), (0.0, 0.02, ""), (0.0, 0.0, "")],
)
def test_trusted_pairs_that_may_move_the_share_are_named(low, high, named) -> None:
    """If five in 100 are wrong, a share of 18 % reads as 13 %."""
    share = (0.13, 0.12, 0.15)
    random = (high / 2, low, high)
    tables = corpus(wrong_captions=share, trusted=share, storey=share, trusted_like_random=random)
    (question,) = claims.QUESTIONS
    answer = questions.answered("audit", question, [*judged(tables).values()], tables, 0.95)
    for text in (answer.limit, details(tables)):
        assert ("known to be right rank like random ones" in text) == (named != "")
        assert named in text


@pytest.mark.parametrize("kept", [90.0, 100.0])
@pytest.mark.parametrize(("trusted", "excess"), [(False, 0.0), (True, 0.0), (True, 0.1)])
def test_pairs_are_left_out_with_a_caution_where_no_lower_limit_holds(trusted, excess, kept):
    share = (0.13, 0.12, 0.15)
    more = {"trusted": share, "trusted_excess": (excess, math.nan, math.nan)} if trusted else {}
    counts = {"pairs": (100.0,) * 3, "pairs_kept": (kept,) * 3}
    text = details(corpus(wrong_captions=share, storey=share, **more, **counts))
    assert ("may be right" in text) == (kept < 100 and (excess > 0 or not trusted))


@pytest.mark.parametrize("refused", ["", "Refused."])
def test_the_table_of_texts_names_no_share_where_there_is_none(refused: str) -> None:
    share = {} if refused else {"wrong_captions": (0.13, 0.12, 0.15)}
    table = printed.conspicuous_texts(corpus(refused, **share).audit)
    assert ("share of captions of unrelated" in table.remark) == (not refused)


def test_the_size_of_what_ranks_cannot_see_is_among_the_numbers() -> None:
    tables = made_up(TRIED, limits("boilerplate", error=-0.1), limits("filtered", error=-0.05))
    found = claims.numbers(tables)
    assert found["unseen"] == {
        "boilerplate": pytest.approx((0.7, 0.8)), "filtered": pytest.approx((0.75, 0.8))
    }  # fmt: skip
    assert (found["limits"], found["held"]) == (3, 3)


@pytest.mark.parametrize("outcome", rules.OUTCOMES[:-1])
@pytest.mark.parametrize("gate", ["", "unknown truth", "refused"])
@pytest.mark.parametrize("trusted", [True, False])
def test_every_sentence_renders_for_each_outcome(trusted: bool, gate: str, outcome: Any) -> None:
    share = (0.13, 0.12, 0.15)
    tables = corpus("Refused.")
    if gate != "refused":
        more = {"trusted": share} if trusted else {}
        tables = corpus("", wrong_captions=share, wins_against_random=share, storey=share, **more)
    (question,) = claims.QUESTIONS
    answer = questions.answered("audit", question, [*judged(tables).values()], tables, 0.95)
    assert answer.numbers["worst"] == pytest.approx(0.0)
    reason: Any = "gate" if gate else "open"
    lead = answer.lead[0]
    measured = replace(lead.measured, gate=gate)
    answer = replace(
        answer, lead=(replace(lead, outcome=outcome, reason=reason, measured=measured),)
    )
    assert answer.sentence.endswith(".")
    assert " ." not in answer.sentence + answer.limit + details(tables)
    assert answer.limit.endswith(".") or gate == "refused"
    assert ("12 %" in answer.sentence) == (trusted and gate != "refused")


def wrong_before(share: float, *trusted: float, excess: float = 0.0) -> Tables:
    """Return exact trials of a corpus that had wrong captions, and maybe its audit."""
    found = [
        {**row, "value": row["value"] * (1 - share) + share, "high": 1.0}
        for scheme in ("random", "boilerplate") for row in limits(scheme)
    ]  # fmt: skip
    reliable = {"metric": "reliability", "at": 0.9, "value": 0.9, "n": 5}
    tables = made_up(rates(), found, [reliable], right=False)
    rows = [{"metric": "trusted", "value": value, "low": value, "high": value} for value in trusted]
    rows.append({"metric": "trusted_excess", "value": excess})
    return tables.replace(audit=tidy("audit", rows))


@pytest.mark.parametrize("before", [0.02, 0.25, 0.6])
def test_captions_that_were_wrong_before_are_in_every_expected_share(before: float) -> None:
    tables = wrong_before(before, before)
    known = claims.known_rates(tables)
    assert (known["value"] - known["true"]).abs().max() == pytest.approx(0)
    drawing = figures.audit_calibration(tables)
    assert isinstance(drawing, Drawing)
    assert (drawing.data["value"] - drawing.data["true"]).abs().max() == pytest.approx(0)
    small = figures.small_audit(tables)
    assert isinstance(small, Drawing)
    assert small.data["x"].tolist() == pytest.approx(small.data["value"].tolist())
    assert claims.numbers(tables)["unseen"] == {"boilerplate": pytest.approx((0.8, 0.8))}
    for verdict in judged(tables).values():
        assert verdict.outcome in ("cannot tell", "not measured")
        assert not abs(verdict.effect.value) > 1e-9
    assert [note.values for note in drawing.notes] == [{"before": before}]
    # A false estimate is not hidden: another share before gives errors.
    other = claims.known_rates(wrong_before(before, 0.94))
    assert (other["value"] - other["true"]).abs().max() > 0.1


@pytest.mark.parametrize("tables", [wrong_before(0.25), wrong_before(0.25, 0.25, excess=0.1)])
def test_without_the_share_that_was_wrong_before_no_error_is_shown(tables: Tables) -> None:
    known = claims.known_rates(tables)
    assert set(known.loc[known["true"].notna(), "series"]) == {claims.TRUSTED}
    assert isinstance(figures.small_audit(tables), Hole)
    assert isinstance(figures.audit_reliability(tables), Hole)
    drawing = figures.audit_calibration(tables)
    assert isinstance(drawing, Drawing)
    assert set(drawing.data["series"]) == {claims.TRUSTED}
    numbers = claims.numbers(tables)
    assert (numbers["unseen"], numbers["limits"]) == ({}, 0)
    assert [math.isnan(note.values["before"]) for note in drawing.notes] == [True]
    assert "was made wrong" in texts.joined(drawing.notes)
    memorised = limits(scorer="memorised", error=-0.05)
    trials = tidy("audit_calibration", [*rates(), *limits(), *memorised])
    verdicts = judged(tables.replace(audit_calibration=trials))
    for key, value in (("audit-estimates", 0.0), ("audit-memorised", math.nan)):
        assert (verdicts[key].outcome, verdicts[key].measured.gate) == ("cannot tell", GATE)
        assert verdicts[key].effect.value == pytest.approx(value, nan_ok=True)
        assert "not measured to" not in texts.shared("brief", verdicts[key])


@pytest.mark.parametrize(
    ("low", "wins", "told"),
    [(0.2, 0.95, "they allow at most"), (0.0, 0.95, "rank as high"), (0.0, 0.5, "rank worse")],
)
def test_trusted_pairs_that_the_scores_contradict_are_on_the_page(low, wins, told) -> None:
    share, storey = (0.22, low, 0.24), (0.01, 0.01, 0.02)
    given = {"wrong_captions": share, "trusted": share, "storey": storey}
    given |= {"wins_against_random": (0.8, 0.79, 0.81), "power": (wins, wins, wins)}
    contradicted = corpus(**given, trusted_excess=(0.18, math.nan, math.nan))
    assert told in details(contradicted)
    assert told not in details(corpus(**given, trusted_excess=(0.0, math.nan, math.nan)))


@pytest.mark.parametrize("before", [0.0, 0.2, 0.5])
def test_separations_count_captions_that_were_wrong_before(before: float) -> None:
    """Where all wrong captions are known, corrected numbers are those of all of them."""
    generator, n, made = np.random.default_rng(0), 40_000, 0.3
    was_wrong, was_made = generator.random(n) < before, generator.random(n) < made
    wrong = was_wrong | was_made
    chance = special.expit(generator.standard_normal(n) + 2 * wrong - 1)

    def rows(truth: np.ndarray) -> list[dict[str, Any]]:
        origin = {"scheme": "random", "injected": made, "made": was_made.mean(), "n": n}
        areas = {"auroc": roc_auc_score(truth, chance),
                 "auprc": average_precision_score(truth, chance)}  # fmt: skip
        return [
            *({**origin, "metric": metric, "method": "probability", "value": value}
              for metric, value in areas.items()),
            *({**origin, "metric": "reliability", "at": at, "value": value, "n": members}
              for at, value, members in reliability(chance, truth)),
        ]  # fmt: skip

    share = {"metric": "trusted", "value": before, "low": before, "high": before}
    tables = made_up(rows(was_made), right=False).replace(audit=tidy("audit", [share]))
    of_all = claims.separations(made_up(rows(wrong)))
    of_made = claims.separations(tables)
    np.testing.assert_allclose(of_made["corrected"], of_all["value"], atol=0.02)
    np.testing.assert_array_equal(of_all["corrected"], of_all["value"])
    printed_numbers = [[cell.value for cell in row[3:]] for row in printed.separation(tables).rows]
    areas = of_made[of_made["metric"] != "reliability"].sort_values("metric", ascending=False)
    assert printed_numbers[0] == [*areas["value"], *areas["corrected"]]
    drawing = figures.audit_reliability(tables)
    assert isinstance(drawing, Drawing)
    diagram = of_made[of_made["metric"] == "reliability"]
    assert drawing.data["value"].tolist() == diagram["corrected"].tolist()
    assert [note.values for note in drawing.notes] == [{"before": before}]


def test_separations_are_not_corrected_where_the_share_or_the_ranks_are_not_known() -> None:
    origin = {"injected": 0.3, "made": 0.3, "metric": "auroc", "value": 0.8}
    tried = [{**origin, "scheme": scheme, "method": "cosine"} for scheme in ("random", "similar")]
    share = {"metric": "trusted", "value": 0.2, "low": 0.2, "high": 0.2}
    tables = made_up(tried, right=False)
    assert claims.separations(tables)["corrected"].isna().all()
    assert len(printed.separation(tables).heads) == len(printed.separation(tables).rows[0]) == 5
    known = claims.separations(tables.replace(audit=tidy("audit", [share])))
    assert known["corrected"].tolist() == pytest.approx([0.875, math.nan], nan_ok=True)


def test_tables_have_the_numbers_of_the_trials() -> None:
    known = printed.known_shares(made_up(rates(error=0.01)))
    assert [(row[3].value, row[4].value, row[-1]) for row in known.rows] == [
        (share, pytest.approx(0.01), "yes") for share in SHARES
    ]
    scores = [{"scheme": "random", "injected": 0.3, "method": name, "metric": "auroc", "value": at}
              for name, at in (("probability", 0.9), ("cosine", 0.8))]  # fmt: skip
    apart = {row[2]: row[3].value for row in printed.separation(made_up(scores)).rows}
    assert [apart[printed.SCORES[name]] for name in ("probability", "cosine", "two-gaussians")] == [
        0.9, 0.8, None
    ]  # fmt: skip
