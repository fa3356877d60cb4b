"""The site of a made-up run with markup for names, opened from disk in a real browser."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser import CHROMIUM, Window, empty_plots, window
from tests.made_up_tables import EVIL
from tests.report.conftest import TITLE

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def opened() -> Iterator[Window]:
    with window() as found:
        yield found


@pytest.fixture
def phone(opened: Window) -> Iterator[Window]:
    usual = opened.page.viewport_size
    opened.page.set_viewport_size({"width": 420, "height": 800})
    yield opened
    opened.page.set_viewport_size(usual)


def unfolded(opened: Window, path: Path, drawn: bool = True) -> Page:
    """Open a page with all of its parts."""
    page = opened.open(path, drawn=drawn)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    return page


def test_markup_from_data_stays_text(whole: Path, opened: Window) -> None:
    for path in sorted((whole / "pages").glob("*.html")):
        page = opened.open(path, drawn=False)
        assert page.evaluate("window.hit") is None, path.name
        assert page.locator("b[onclick]").count() == 0
        assert page.title().endswith(TITLE)
        assert page.locator("h1" if path.stem == "index" else ".brand").inner_text() == TITLE
    page = opened.open(whole / "pages" / "image_text.html")
    assert EVIL in page.locator(".pairs").text_content()
    assert EVIL in page.locator("#figure-accuracy_by_shuffling svg").text_content()
    assert opened.complaints == []
    assert opened.requests == []


def test_two_clicks_lead_from_the_first_card_to_its_numbers(whole: Path, opened: Window) -> None:
    """A card's picture leads to its figure with the table below, and its verdict to the effect."""
    page = opened.open(whole / "pages" / "index.html")
    card = page.locator(".card.with-picture").first
    card.locator("a:has(img)").click()
    figure = page.locator("figure:target")
    assert figure.bounding_box()["y"] < page.viewport_size["height"]
    table = whole / "pages" / figure.get_by_role("link", name="CSV").get_attribute("href")
    assert len(table.read_text().splitlines()) > 1
    page.go_back()
    page.locator(".card.with-picture").first.locator("a.verdict").first.click()
    assert re.search(r"[−+]\d", page.locator(":target .value").first.inner_text())


def test_a_link_to_a_figure_in_a_closed_part_opens_it(whole: Path, opened: Window) -> None:
    """From the address, from another page, and on the page."""
    study, anchor = whole / "pages" / "image_text.html", "figure-pruning"
    page = opened.page
    figure = page.locator(f"#{anchor}")

    def shown() -> bool:
        figure.wait_for(state="visible")
        page.wait_for_function(f"""() => {{
          const top = document.getElementById('{anchor}').getBoundingClientRect().top;
          return top >= 0 && top < window.innerHeight; }}""")
        closed = "(one) => Boolean(one.closest('details:not([open])'))"
        return not figure.evaluate(closed)

    page.goto(f"{study.as_uri()}#{anchor}")
    assert shown()
    unfolded(opened, whole / "pages" / "claims.html", drawn=False)
    page.locator(f"a[href$='#{anchor}']").first.click()
    assert shown()
    page.goto("about:blank")
    opened.open(study, drawn=False)
    assert figure.is_hidden()
    page.evaluate(f"window.location.hash = '{anchor}'")
    assert shown()


def test_panels_are_below_each_other_on_a_phone(whole: Path, phone: Window) -> None:
    panels = "#figure-purity_by_shuffling svg .role-scope[class*=concat_]"
    tops = f"""() => [...document.querySelectorAll('{panels}')]
      .map((panel) => panel.getBoundingClientRect().top)"""
    page = phone.open(whole / "pages" / "image_text.html")
    places = page.evaluate(tops)
    drawn = page.locator("#figure-purity_by_shuffling svg").first
    svg = drawn.bounding_box()
    scale = svg["width"] / drawn.evaluate("(svg) => svg.viewBox.baseVal.width")
    assert places == sorted(places)
    assert places[-1] - places[0] > 5 * 150
    assert svg["width"] <= 420
    assert 12 * scale >= 9, "pixels of letters"
    assert phone.complaints == []


def test_letters_and_numbers_can_be_read_on_a_phone(whole: Path, phone: Window) -> None:
    """A table scrolls; "20,0" above "00" reads as another number."""
    scales = """() => Object.fromEntries([...document.querySelectorAll('.plot')].map((plot) => {
      const svg = plot.querySelector('svg');
      return [plot.dataset.figure, svg.getBoundingClientRect().width / svg.viewBox.baseVal.width];
    }))"""
    broken = """() => [...document.querySelectorAll('td')].filter((cell) => {
      if (!/^[−+]?\\d[\\d.,]*( %)?$/.test(cell.innerText.trim())) return false;
      const range = document.createRange();
      range.selectNodeContents(cell);
      return new Set([...range.getClientRects()].map((line) => Math.round(line.top))).size > 1;
    }).map((cell) => cell.innerText)"""
    for path in sorted((whole / "pages").glob("*.html")):
        page = unfolded(phone, path)
        assert page.evaluate(broken) == [], path.name
        assert page.evaluate("document.documentElement.scrollWidth") == 420, path.name
        if path.stem in ("image_text", "simulation", "laclip"):
            drawn = page.evaluate(scales)
            assert drawn
            assert empty_plots(page) == []
            small = {key for key, scale in drawn.items() if scale < 0.7}
            assert small <= {"checkpoints"}, path  # its labels have the long hostile name


ALL_RULES = ["wcag2a", "wcag2aa", "wcag21aa"]
EVERY_KIND = ("index", "claims", "methods", "run", "image_text", "simulation", "laclip")
"""Pages that have all that pages consist of."""


def test_no_rule_of_accessibility_is_broken(whole: Path, opened: Window) -> None:
    for name in EVERY_KIND:
        page = unfolded(opened, whole / f"pages/{name}.html")
        # The schemes differ in colours alone.
        for scheme, rules, least in (("light", ALL_RULES, 11), ("dark", ["color-contrast"], 1)):
            page.emulate_media(color_scheme=scheme)
            paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
            # The page forbids scripts that are not its own; the driver's are let in.
            # A chart counts as one picture with a name; its thousands of marks take axe a minute.
            # Of what passes, axe names one element of a rule and not thousands.
            results = Axe().run(
                page, context={"exclude": [[".plot svg > *"]]},
                options={"runOnly": rules, "resultTypes": ["violations"]},
            )  # fmt: skip
            broken = [
                (rule["id"], [node["target"] for node in rule["nodes"]][:3])
                for rule in results.response["violations"]
            ]
            assert broken == [], (name, scheme)
            assert len(results.response["passes"]) >= least
        page.emulate_media(color_scheme="light")


def test_the_keyboard_reaches_and_leaves_every_figure(whole: Path, opened: Window) -> None:
    """Each figure of open parts has the focus once, in the order of the page."""
    page = unfolded(opened, whole / "pages" / "image_text.html")
    plots = "[...document.querySelectorAll('.plot')]"
    asked = page.evaluate(f"{plots}.map((one) => one.dataset.figure)")
    stops = page.evaluate("document.querySelectorAll('a, summary, [tabindex]').length")
    reached = []
    for _ in range(stops):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.dataset.figure")
        reached += [name] if name else []
    assert reached == asked
    labels = page.locator(".plot").evaluate_all("(all) => all.map((one) => one.ariaLabel)")
    assert all(label.startswith("Chart: ") and label.endswith(".") for label in labels)


def test_closed_parts_stay_closed_in_print_and_anchors_are_below_the_menu(whole, opened) -> None:
    page = opened.open(whole / "pages" / "image_text.html")
    printed = "document.querySelectorAll('details[open]').length"
    before = page.evaluate(printed)
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(printed) == before
    page = opened.open(whole / "pages" / "claims.html", drawn=False)
    anchor = page.locator("[id^=claim-]").last.get_attribute("id")
    page.evaluate("(anchor) => { window.location.hash = anchor }", anchor)
    place = page.locator(f"[id='{anchor}']")
    place.wait_for()
    menu = page.locator(".top").bounding_box()
    assert place.bounding_box()["y"] >= menu["y"] + menu["height"]
