"""What a report opens with: its heading, the order of its cards, and what it quotes."""

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mispair.audit.report.claims import numbers
from mispair.core.words import percent
from mispair.report import questions, studies, texts
from mispair.report.claims import Claim, Control, Measure, MeasuredClaim
from mispair.report.judge import ControlVerdict, PartVerdict, Verdict, judge
from mispair.report.pages import study_pages
from mispair.report.pages.content import Content, judged
from mispair.report.pages.site import build
from mispair.report.questions import Answer, Question, strongest, strongest_limit
from mispair.report.rules import OUTCOMES, Outcome
from mispair.report.statistics import effect_of_estimate, unknown_effect
from mispair.report.tables import Tables, read_csvs
from tests.visible_words import words


@pytest.fixture(scope="module")
def tables(whole: Path) -> Tables:
    return read_csvs((whole / "tables").glob("*.csv"))


@pytest.fixture(scope="module")
def verdicts(tables: Tables) -> list[Verdict]:
    return judged(tables, 0.95)


@pytest.fixture(scope="module")
def site(tables: Tables) -> dict[str, Any]:
    """Return the files of the site, without a corpus of the user's."""
    return build(content(tables, "")).files


def content(tables: Tables, corpus: str, title: str = "") -> Content:
    return Content(tables, {}, {}, {}, None, title=title, confidence=0.9, corpus=corpus)


def test_the_paper_comes_first_and_its_simulation_last(tables: Tables) -> None:
    of_demo = content(tables, "")
    order = [study.key for study in of_demo.studies]
    assert (order[0], order[-1]) == ("image_text", "simulation")
    assert "CLIP" in of_demo.heading
    assert content(tables, "photos", title="Mine").heading == "Mine"


def test_a_report_on_own_pairs_is_about_them(tables: Tables) -> None:
    own = content(tables, "photos")
    assert [study.key for study in own.studies][:2] == ["audit", "repair"]
    rate = numbers(tables)["rate"]
    assert own.heading.startswith("photos: ")
    assert percent(rate.high) in own.heading
    front = build(own).files["index.html"]
    first = front.partition('class="card')[2].partition("</h2>")[0]
    assert "How many captions are wrong" in first
    opening = front.partition('class="opening"')[2].partition("</p>")[0]
    assert percent(rate.high) in words(opening)


def test_the_report_of_an_audit_names_no_table_of_the_paper(tables: Tables) -> None:
    """It has what became of the samples, which an audit gathers, too."""
    of_audit = {name: tables.frames[name] for name in (*studies.study("audit").tables, "corpus")}
    site = build(content(Tables(of_audit), "photos"))
    assert {"audit.html", "repair.html", "image_text.html"} & site.files.keys() == {"audit.html"}
    assert "2 of 22 samples" in words(site.files["index.html"])
    for name, html in site.files.items():
        if name.endswith(".html"):
            assert re.findall(r"(?i)\b(?:figures?|tables?) \d", words(html)) == [], name
            assert "LaCLIP" not in words(html), name


BRACKETS = "Brackets:"


def test_brackets_are_explained_where_there_are_some(tables: Tables, site: dict) -> None:
    nothing = Tables({name: frame[:0] for name, frame in tables.frames.items()})
    for files in (site, build(content(nothing, "")).files):
        html = files["index.html"]
        front = words(html.partition('class="unmeasured"')[0])
        found = re.search(r"\([^()]* to [^()]*\)", front) is not None
        assert (BRACKETS in front) == found == (files is site)


def test_the_levels_of_brackets_are_those_of_primary_and_of_other_claims(site) -> None:
    """Where both kinds are on a page, cards and answers mark the primary ones."""
    for name in ("index.html", "pages/image_text.html", "pages/repair.html"):
        html = site[name.removeprefix("pages/")]
        sentence = words(html).partition(BRACKETS)[2].partition(".")[0]
        levels = re.findall(r"\d+ %", sentence.replace("\u00a0", " "))
        marked = 'class="paper">primary<' in html
        assert (levels[0] == "98 %") == marked == ("repair" not in name)
        assert levels[1:] == (["90 %"] if name == "index.html" else [])


def test_a_refused_audit_says_its_reason_once(tables: Tables) -> None:
    reason = "Captions beat random ones in 54.0 % of comparisons."
    audit, origin = tables.audit, tables.provenance.copy()
    of_audit = {name: tables.frames[name] for name in studies.study("audit").tables}
    of_rates = audit["metric"].str.startswith(("wrong_captions", "trusted", "checked"))
    at = (origin["artefact"] == "audit") & (origin["key"] == "refused")
    assert at.any()
    origin.loc[at, "text"] = reason
    refused = {**of_audit, "audit": audit[~of_rates], "provenance": origin}
    front = words(build(content(Tables(refused), "photos")).files["index.html"])
    assert front.count(reason) == 1
    assert BRACKETS not in front


def answer(outcome: Outcome, *, near: bool = False, limited: bool = False) -> Answer:
    key = f"{outcome}{near}{limited}"
    claim = Claim(key, "image_text", "It rises.", "", "", lambda *_: MeasuredClaim())
    control = Control("Other", lambda *_: MeasuredClaim())
    effect = unknown_effect(math.nan, 0, "")
    finding = "limits" if limited else "does not limit"
    verdict = Verdict(
        claim, outcome, "size shown", MeasuredClaim(), near=near,
        controls=(ControlVerdict(control, effect, 0.1, finding),),
    )  # fmt: skip
    return Answer(Question(key, "Does it?", (key,)), "image_text", (verdict,), {}, (), {}, 0.95)


def test_what_is_quoted_is_decided_and_not_near_the_line() -> None:
    open_, near = answer("cannot tell"), answer("supports", near=True)
    first, second, third = (
        answer(outcome) for outcome in ("direction only", "contradicts", "no such effect")
    )
    assert strongest([open_, near, first, second, third], first=False) == [first, second, third]
    assert strongest([near, first, open_], first=False) == [near, first]
    assert strongest([open_, near, first, second, third], first=True) == [open_, first, second]
    assert strongest([open_], first=False) == strongest([], first=True) == []


def test_the_strongest_limit_is_one_that_a_control_shows() -> None:
    free, limited = answer("supports"), answer("supports", limited=True)
    assert free.limit == ""
    assert "other" in limited.limit
    assert strongest_limit([free, limited]) == limited.limit
    assert strongest_limit([free]) == ""


def control(
    name: str, share: float, of: Measure | None = None, placebo: bool = False, **shares: float
) -> Any:
    bounds: dict[str, Any] = {"least": None, "most": 0.5} if placebo else {}
    found = Control(name, lambda *_: MeasuredClaim(), of=of, **bounds)
    return ControlVerdict(found, unknown_effect(math.nan, 0, ""), share, "limits", shares=shares)


def test_the_strongest_limit_takes_most_of_the_effect() -> None:
    """An effect that turns loses more than all; a placebo that has it all explains all of it."""
    halved, turned, placebo = control("a", 0.2), control("b", -0.1), control("c", 0.9, placebo=True)
    other = control("d", -3.0, of=lambda *_: MeasuredClaim())
    lead = answer("supports").lead[0]
    assert replace(lead, controls=(halved, placebo)).strongest is placebo
    assert replace(lead, controls=(other, placebo, turned, halved)).strongest is turned
    assert replace(lead, controls=(other,)).strongest is None
    answers = [
        replace(answer("supports"), lead=(replace(lead, controls=found),))
        for found in ((halved,), (placebo, turned), (other,))
    ]
    for order in itertools.permutations(answers):
        assert strongest_limit(order) == answers[1].limit


def test_a_limit_is_as_strong_as_on_the_part_that_loses_least() -> None:
    """The text tower decides; a control that turns it alone is weaker than one of both towers."""
    turned, both = (
        control(name, text, text=text, image=image)
        for name, text, image in (("turned", -0.13, 0.46), ("both", 0.17, -0.04))
    )
    placebo = control("placebo", 0.9, placebo=True, text=0.9, image=0.1)
    lead = answer("supports").lead[0]
    for order in itertools.permutations((turned, both, placebo)):
        assert replace(lead, controls=order).strongest is both


def test_shares_of_a_control_are_of_each_part_with_an_effect() -> None:
    effects = {"text": -1.0, "image": -2.0, "third": 0.01}

    def measured(size: float) -> MeasuredClaim:
        return MeasuredClaim(effect_of_estimate(size, 0.01, 9, 10, 0.95, "seed"))

    whole, half = (
        MeasuredClaim(parts={name: measured(size * factor) for name, size in effects.items()})
        for factor in (1.0, 0.5)
    )
    claim = Claim(
        "a", "image_text", "It falls.", "", "", lambda *_: whole, sign=-1, bound=0.5, every="tower",
        controls=(Control("half", lambda *_: half, least=0.9),),
    )  # fmt: skip
    (found,) = judge(claim, Tables({}), 0.95).controls
    assert found.shares == pytest.approx({"text": 0.5, "image": 0.5})


def test_each_control_that_limits_is_on_its_card(tables: Tables, verdicts: list[Verdict]) -> None:
    seen = 0
    for study in studies.NAMES:
        for question in study_pages.pages(study).questions:
            leads = [v for v in verdicts if v.claim.key == question.claims[0] and v.effect.known]
            for lead in leads[:1]:
                shown = replace(lead, outcome="supports", reason="size shown")
                nothing = [ControlVerdict(one, lead.effect, math.nan, "not measured")
                           for one in lead.claim.controls]  # fmt: skip
                of_cards = [nothing]
                for at, one in enumerate(nothing):
                    share = 0.05 if one.control.least is not None else 0.95
                    limits = replace(one, share=share, finding="limits")
                    of_cards.append([*nothing[:at], limits, *nothing[at + 1 :]])
                cards = {
                    questions.answered(
                        study, question, [replace(shown, controls=tuple(each))], tables, 0.95
                    ).limit
                    for each in of_cards
                }
                assert len(cards) == 1 + len(nothing), question.key
                seen += len(nothing)
    assert seen > 10


def test_the_part_that_decides_is_named_where_another_has_another_outcome() -> None:
    lead = replace(answer("direction only").lead[0], decided_by="text")
    effect = unknown_effect(math.nan, 0, "")
    text, image = (
        PartVerdict(name, effect, 0.1, outcome)
        for name, outcome in (("text", "direction only"), ("image", "supports"))
    )
    assert texts.shared("weakest", replace(lead, parts=(text, text))) == ""
    named = texts.shared("weakest", replace(lead, parts=(text, image)))
    assert named.startswith("text")
    assert "image alone: supports" in named


def test_the_card_on_mixing_has_words_for_each_outcome(tables, verdicts) -> None:
    (lead,) = (each for each in verdicts if each.claim.key == "neurons-mix")
    (question,) = (q for q in study_pages.pages("image_text").questions if q.key == "mixing")
    outcomes = [o for o in OUTCOMES[:-1] if o not in ("supports", "direction only")]
    cards = {
        questions.answered(
            "image_text", question, [replace(lead, outcome=outcome)], tables, 0.95
        ).sentence
        for outcome in ("supports", *outcomes)
    }
    assert len(cards) == len(OUTCOMES) - 2


@pytest.mark.parametrize("gate", ["", "no cost"])
@pytest.mark.parametrize("outcome", OUTCOMES[:-1])
def test_every_sentence_is_there_for_each_outcome(tables, verdicts, outcome, gate) -> None:
    """Of the questions of all studies that the small run answers."""

    def turned(verdict: Verdict) -> Verdict:
        measured = replace(verdict.measured, gate=gate)
        return replace(
            verdict, outcome=outcome, reason="gate" if gate else "size open", measured=measured
        )

    answered = {
        name: [questions.answered(name, question, verdicts, tables, 0.95)
               for question in study_pages.pages(name).questions]
        for name in studies.NAMES
    }  # fmt: skip
    of_studies = {name: [one for one in found if one.measured] for name, found in answered.items()}
    assert [name for name, found in of_studies.items() if not found] == ["laclip"]
    for one in itertools.chain.from_iterable(of_studies.values()):
        of = {key: turned(verdict) for key, verdict in one.of.items()}
        lead, others = (tuple(map(turned, some)) for some in (one.lead, one.verdicts))
        found = replace(one, lead=lead, of=of, verdicts=others)
        assert found.sentence
        told = [found.sentence, found.finding, found.limit, found.advice,
                *map(texts.remark, others)]  # fmt: skip
        for text in filter(None, told):
            assert text.endswith("."), text
            assert "  " not in text
            assert " ." not in text
            assert "nan" not in text.lower().split()
