"""The page of the review in a real browser: answers, undo, files, storage, the interval."""

import itertools
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from mispair.audit.steps import draw_suspects
from mispair.audit.steps.draw_suspects import Suspect
from mispair.report.pages import picture
from mispair.review.labels import LABELS, OF_REPAIRS, read_labels
from mispair.review.measure import interval
from mispair.review.server import LabelFile, Server
from tests.browser import CHROMIUM, Window, reload, window
from tests.review.made_up_draw import CAPTIONS, EVIL, KEYS, OF, STRATA, jpeg, parts, write_page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("run") / "reports" / "review.html")


@pytest.fixture(scope="module")
def browser() -> Iterator[Window]:
    with window(width=390, height=800) as found:
        yield found


@pytest.fixture
def opened(browser: Window, path: Path) -> Iterator[Page]:
    """Yield the page without answers; it must neither complain nor use the network."""
    page = browser.open(path)
    page.evaluate("localStorage.clear()")
    reload(page)
    browser.complaints.clear()
    browser.requests.clear()
    yield page
    assert (browser.complaints, browser.requests) == ([], [])


def answered(page: Page, words: str = "labelled") -> str:
    return page.locator("#counter").inner_text().removesuffix(words).strip()


def saved(page: Page, into: Path) -> Path:
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(into)
    return into


def loaded(page: Page, text: str) -> str:
    file = {"name": "labels.csv", "mimeType": "text/csv", "buffer": text.encode()}
    page.set_input_files("#load", file)
    expect(page.locator("#loaded")).not_to_be_empty()
    return page.locator("#loaded").inner_text()


def test_pairs_are_answered_by_keys_and_progress_is_kept(opened: Page, tmp_path: Path) -> None:
    page = opened
    shown = []
    for key in "w1ru2":
        shown.append(page.locator(".caption").inner_text())
        page.keyboard.press(key)
    assert shown == [text or "(no caption)" for text in CAPTIONS[:5]]
    assert answered(page) == "5 of 6"
    assert "Unsure" in page.locator("#said").text_content()
    assert CAPTIONS[5] in page.locator("#said").text_content()
    page.keyboard.press("Backspace")
    page.keyboard.press("Control+w")  # is no answer
    page.keyboard.press("q")
    assert answered(page) == "4 of 6"
    reload(page)
    assert answered(page) == "4 of 6"
    page.keyboard.press("Backspace")
    assert answered(page) == "3 of 6"
    page.locator("summary").click()
    page.uncheck("#shortcuts")
    page.keyboard.press("r")
    assert answered(page) == "3 of 6"
    for _ in range(3):
        page.get_by_role("button", name="Right").click()
    assert page.locator("#finished").is_visible()
    assert page.get_by_role("button", name="Right").is_disabled()
    labels = read_labels(saved(page, tmp_path / "review.csv"))
    given = ["wrong", "wrong", "right", "right", "right", "right"]
    assert labels == {key.strip(): (label, "drawn") for key, label in zip(KEYS, given, strict=True)}


def test_nothing_on_the_page_influences_an_answer(opened: Page, path: Path) -> None:
    page, source = opened, path.read_text(encoding="utf-8")
    assert "0.7312" not in source
    assert "probability" not in page.locator("body").inner_text()
    for number, (key, caption) in enumerate(zip(KEYS, CAPTIONS, strict=True), 1):
        seen = page.locator("main").inner_text()
        assert key == "__proto__" or key not in seen
        text = page.locator(".caption")
        assert text.text_content() == (caption or "(no caption)")
        assert text.evaluate("(node) => getComputedStyle(node).direction") == (
            "rtl" if number == 2 else "ltr"
        )
        assert text.evaluate("(node) => getComputedStyle(node).unicodeBidi").startswith("isolate")
        size = text.evaluate("(node) => parseFloat(getComputedStyle(node).fontSize)")
        assert size >= 20
        is_there = page.locator("#picture").evaluate("(node) => node.naturalWidth > 0")
        assert is_there == (number != 3)
        assert page.locator("#missing").is_visible() == (number == 3)
        page.keyboard.press("r")
    assert page.evaluate("window.hit") is None
    assert page.locator("b").count() == 0


def test_labels_of_spreadsheets_are_merged_and_none_is_lost(opened: Page, tmp_path: Path) -> None:
    page = opened
    page.keyboard.press("w")
    text = (
        '\ufeffKey;LABEL;how\r\n__proto__;right;drawn\r\n12;RIGHT;\r\n"a,""b;c";Unsure;drawn\r\n'
        "\u00e9t;wrong;drawn\r\nelsewhere;wrong;drawn\r\nlast;wrong;chosen\r\nspaced;?;\r\n;;\r\n"
    )
    words = loaded(page, text)
    assert "7 rows read: 3 labels added, 1 different" in words
    assert answered(page) == "4 of 6"
    reload(page)
    path = saved(page, tmp_path / "review.csv")
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "key,label,how"
    assert lines[1:5] == [
        "__proto__,wrong,drawn", "12,right,drawn", '"a,""b;c",unsure,drawn', "e\u0301t,wrong,drawn",
    ]  # fmt: skip
    assert lines[5:] == ["elsewhere,wrong,drawn", "last,wrong,chosen", '" spaced",?,']
    assert loaded(page, "name,value\n1,2\n").startswith("This file has no columns")
    page.evaluate("document.getElementById('loaded').textContent = ''")
    again = loaded(page, path.read_text(encoding="utf-8"))
    assert "4 the same" in again
    assert saved(page, tmp_path / "again.csv").read_text() == path.read_text()


def test_the_interval_is_that_of_python(opened: Page) -> None:
    rows = [
        [[pairs, n, min(y, n)], [other, 20, k]]
        for pairs, n, y, other, k in itertools.product(
            (30, 10**9), (0, 1, 30), (0, 1, 17, 30), (20, 800), (0, 3, 20)
        )
    ]
    rows += [[one] for one in ([10, 0, 0], [10**12, 200, 0], [10**12, 200, 2], [999, 200, 198],
                               [50, 50, 4])]  # fmt: skip
    rows.append([[9, 3, 3], [900, 7, 0], [4, 0, 0]])
    found = opened.evaluate("(rows) => rows.map((strata) => interval(strata))", rows)
    expected = [interval(*np.transpose(strata)) for strata in rows]
    found = np.array([[np.nan if x is None else x for x in row] for row in found], float)
    np.testing.assert_allclose(found, np.array(expected), rtol=0, atol=1e-6)
    for key in "wwruru":
        opened.keyboard.press(key)
    labelled = np.bincount(OF)
    pairs = [stratum["pairs"] for stratum in STRATA]
    estimate, low, _ = interval(pairs, labelled, [2, 0])
    _, _, high = interval(pairs, labelled, [2, 2])
    line = opened.locator("#estimate").inner_text()
    shown = [float(value) for value in re.findall(r"(\d+\.\d) %", line)]
    assert shown == [round(100 * value, 1) for value in (estimate, low, high)]


def test_repaired_captions_are_shown_in_a_random_order(opened: Page, tmp_path: Path) -> None:
    page = opened
    page.keyboard.press("w")
    page.get_by_role("button", name="Repaired captions").click()
    part = parts()[1]
    assert {pair.fits for pair in part.pairs} == {("old", "new"), ("new", "old")}
    for number, pair in enumerate(part.pairs):
        texts = page.locator(".caption").all_text_contents()
        assert texts == list(pair.texts)
        page.keyboard.press("abno"[number % 4])
    fits = [["old", "new"][pair.fits != ("old", "new")] for pair in part.pairs]
    other = {"old": "new", "new": "old"}
    expected = [
        [first, other[first], "neither", "both"][number % 4] for number, first in enumerate(fits)
    ]
    labels = read_labels(saved(page, tmp_path / "repairs.csv"), allowed=OF_REPAIRS)
    assert [label for label, _ in labels.values()] == expected
    page.get_by_role("button", name="Captions", exact=True).click()
    assert answered(page) == "1 of 6"


def test_fingers_swipe_and_enlarge(opened: Page) -> None:
    page = opened
    swipe = """([x, y, fingers]) => {
      const card = document.getElementById("card");
      const touch = (x, y) => new Touch({identifier: 1, target: card, clientX: x, clientY: y});
      const from = Array.from({length: fingers}, () => touch(200, 200));
      card.dispatchEvent(new TouchEvent("touchstart", {touches: from, changedTouches: from}));
      const to = {touches: [], changedTouches: [touch(200 + x, 200 + y)]};
      card.dispatchEvent(new TouchEvent("touchend", to));
    }"""
    for move in ([30, 0, 1], [100, 90, 1], [120, 0, 2]):
        page.evaluate(swipe, move)
        assert answered(page) == "0 of 6"
    page.evaluate(swipe, [-120, 10, 1])
    assert page.locator("#said").text_content().startswith("Wrong.")
    page.keyboard.press("z")
    height = page.locator("#zoom").bounding_box()["height"]
    page.evaluate(swipe, [120, 0, 1])
    assert answered(page) == "1 of 6"
    page.keyboard.press("Escape")
    assert page.locator("#zoom").bounding_box()["height"] < height
    page.evaluate(swipe, [120, 0, 1])
    assert page.locator("#said").text_content().startswith("Right.")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_storage_may_be_blocked_or_damaged(browser: Window, opened: Page, path: Path) -> None:
    opened.keyboard.press("w")
    for damaged in ('{"labels": 3}', '{"labels": [["12", "right"]], "done": []}', "{"):
        opened.evaluate("(text) => localStorage.setItem(localStorage.key(0), text)", damaged)
        reload(opened)
        assert answered(opened) == "0 of 6"
    page = browser.page.context.browser.new_page()
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw new Error('blocked') }})"
    )
    page.goto(path.as_uri())
    page.keyboard.press("w")
    assert answered(page) == "1 of 6"
    assert page.locator("#notice").is_visible()
    page.close()


def test_no_rule_of_accessibility_is_broken(opened: Page) -> None:
    for scheme in ("light", "dark"):
        opened.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        opened.evaluate("document.querySelector('details').open = true")
        results = Axe().run(opened, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"]})
        broken = [
            (rule["id"], [node["target"] for node in rule["nodes"]][:3])
            for rule in results.response["violations"]
        ]
        assert broken == [], scheme
        assert "color-contrast" in {rule["id"] for rule in results.response["passes"]}
        duration = "getComputedStyle(document.getElementById('undo')).transitionDuration"
        assert opened.evaluate(duration) == "0s"
    opened.keyboard.press("Tab")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert opened.evaluate(outline) == "solid"


def test_the_gallery_of_suspects_is_filtered_and_labelled(browser: Window, tmp_path: Path) -> None:
    groups = {
        "wrong": [Suspect('a,"b', jpeg(), "A red dog", 0.97), Suspect("12", None, EVIL, 0.6)],
        "either": [Suspect("12", None, EVIL, 0.6), Suspect("n", None, "a dog", float("nan"))],
        "nothing": [],
    }
    piece = draw_suspects.fragment(groups, 32)
    path = tmp_path / "gallery.html"
    path.write_text(
        "<!doctype html><html lang=en><title>x</title>"
        f"<style>{picture.source('style.css')}</style><body><main><h1>x</h1>{piece}</main>"
        f"<script>{picture.source('page.js')}</script>",
        encoding="utf-8",
    )
    browser.complaints.clear()
    page = browser.open(path)

    def shown() -> list[int]:
        lists = page.locator(".suspects section").all()
        return [section.locator("li:visible").count() for section in lists]

    def none() -> list[bool]:
        return [one.is_visible() for one in page.locator(".none").all()]

    assert (shown(), none()) == ([2, 2, 0], [False, False, True])
    page.get_by_label("probability").fill("0.95")
    assert (shown(), none()) == ([1, 0, 0], [False, True, True])
    page.get_by_label("probability").fill("")
    page.get_by_label("Words").fill("DOG a")
    assert shown() == [1, 1, 0]
    page.get_by_label("Words").fill("zebra")
    assert "none shown" in page.locator(".picker [role=status]").inner_text()
    page.get_by_label("Words").fill("")
    page.get_by_role("group", name='a,"b').get_by_role("button", name="wrong").click()
    page.get_by_role("group", name="12").first.get_by_role("button", name="unsure").click()
    page.get_by_role("group", name="pair n").get_by_role("button", name="right").click()
    page.get_by_role("group", name="pair n").get_by_role("button", name="right").click()
    reload(page)
    assert page.locator('button[aria-pressed="true"]').count() == 3  # one pair is in two lists
    with page.expect_download() as download:
        page.get_by_role("button", name="Save").click()
    download.value.save_as(tmp_path / "chosen.csv")
    labels = read_labels(tmp_path / "chosen.csv")
    assert labels == {'a,"b': ("wrong", "chosen"), "12": ("unsure", "chosen")}
    assert page.evaluate("window.hit") is None
    results = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"]})
    assert [rule["id"] for rule in results.response["violations"]] == []
    assert browser.complaints == []


def test_a_server_writes_answers_as_they_come(browser: Window, path: Path) -> None:
    csv = path.parent.parent / "review.csv"
    csv.write_text("key;label;note\n12;Wrong;see\nforeign;right;kept\n", encoding="utf-8")
    files = {"captions": LabelFile(csv, LABELS),
             "repairs": LabelFile(csv.with_name("r.csv"), OF_REPAIRS)}  # fmt: skip
    with Server(path, files) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        page = browser.page.context.browser.new_page()
        page.goto(server.address)
        expect(page.locator("#counter")).to_have_text(re.compile("^1 of"))
        for key in ("r", "Backspace", "u", "r"):
            page.keyboard.press(key)
        for _ in range(100):
            if len(files["captions"].labels()) == 4:
                break
            page.wait_for_timeout(50)
        assert csv.read_text(encoding="utf-8").splitlines() == [
            "key;label;note", "12;Wrong;see", "foreign;right;kept", "__proto__;unsure;",
            '"a,""b;c";right;',
        ]  # fmt: skip
        loaded(page, "key,label,how\n12,right,chosen\nelsewhere,wrong,drawn\nlast,?,\n")
        for _ in range(100):
            if "elsewhere" in csv.read_text(encoding="utf-8"):
                break
            page.wait_for_timeout(50)
        assert csv.read_text(encoding="utf-8").splitlines() == [
            "key;label;note;how", "12;Wrong;see;", "foreign;right;kept;", "__proto__;unsure;;",
            '"a,""b;c";right;;', "12;right;;chosen", "elsewhere;wrong;;drawn",
        ]  # fmt: skip
        page.reload()
        expect(page.locator("#counter")).to_have_text(re.compile("^3 of"))
        server.shutdown()
        thread.join()
        server.server_close()
        page.keyboard.press("w")
        page.wait_for_selector("#notice:not([hidden])")
        assert "1 answers are not in the file" in page.locator("#notice").inner_text()
        page.close()
