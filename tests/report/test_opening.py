"""What a report opens with: its heading, the order of its cards, and what it quotes."""

from __future__ import annotations

import math
import re

import pytest

from mispair.audit.report.claims import numbers
from mispair.core.words import percent
from mispair.report import studies
from mispair.report.claims import Claim, Control, MeasuredClaim
from mispair.report.judge import ControlVerdict, Verdict
from mispair.report.pages.content import Content
from mispair.report.pages.site import build
from mispair.report.questions import Answer, Question, strongest, strongest_limit
from mispair.report.rules import Outcome
from mispair.report.statistics import unknown_effect
from mispair.report.tables import Tables
from tests.made_up_tables import gather
from tests.report.test_reporting_page import NOTHING, make_run
from tests.visible_words import words


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder = tmp_path_factory.mktemp("opening")
    run = {kind: paths for kind, paths in make_run(folder).items() if kind != "shards"}
    return gather({**NOTHING, **run}, folder)


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
