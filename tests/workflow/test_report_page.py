"""The report of a real run, opened from disk in a real browser."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from mispair import config
from mispair.report import studies
from tests.browser import CHROMIUM, Window, broken_links, empty_plots, window
from tests.visible_words import LANDING, STUDY, visible_words
from tests.workflow.conftest import REPOSITORY, SMOKE, Checkout

FIGURE = "figure-purity_by_shuffling"

SMOKE_RUN = yaml.safe_load((REPOSITORY / SMOKE).read_text())
STUDIES = config.validate(SMOKE_RUN, SMOKE).studies

SLOWEST = 2.0
"""Seconds until the first paint of a page."""

in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def reports(finished: Checkout) -> Path:
    return finished.folder / "reports"


@pytest.fixture(scope="module")
def opened() -> Iterator[Window]:
    with window() as found:
        yield found


def pages_of(reports: Path) -> list[Path]:
    return [reports / "index.html", *sorted((reports / "pages").glob("*.html"))]


def test_there_is_a_page_for_everything(reports: Path) -> None:
    names = {path.name for path in pages_of(reports)}
    assert names == {
        *(f"{study}.html" for study in STUDIES),
        "index.html", "claims.html", "methods.html", "run.html",
    }  # fmt: skip
    assert broken_links(reports, pages_of(reports)) == []
    parts = [*pages_of(reports), *(reports / "pages/assets").iterdir()]
    assert sum(path.stat().st_size for path in parts) < 5_000_000
    assert max(path.stat().st_size for path in parts) < 2_000_000


def test_pages_keep_their_budgets_of_words(reports: Path) -> None:
    counts = {path.name: visible_words(path.read_text()) for path in pages_of(reports)}
    print(counts)
    assert counts["index.html"] <= LANDING
    for study in STUDIES:
        assert counts[f"{study}.html"] <= STUDY, study


@in_browser
def test_every_page_is_painted_soon_drawn_whole_and_silent(reports: Path, opened: Window) -> None:
    drawn = 0
    for path in pages_of(reports):
        page = opened.open(path)
        paint = opened.first_paint()
        print(f"{path.name}: first paint after {paint:.2f} s")
        assert paint <= SLOWEST, path.name
        assert empty_plots(page) == [], path.name
        drawn += page.locator(".plot svg").count() + page.locator("#holes li").count()
    assert drawn == sum(len(studies.figures(study)) for study in STUDIES)
    assert opened.complaints == []
    assert opened.requests == []


@in_browser
def test_a_click_in_the_legend_singles_out(reports: Path, opened: Window) -> None:
    page = opened.open(reports / "pages" / "image_text.html")
    figure = page.locator(f"#{FIGURE}")
    faint = """(plot) => [...plot.querySelectorAll('svg .role-mark path')].filter((mark) => {
      const of = (name) => parseFloat(mark.getAttribute(name) ?? 1);
      return of('opacity') * of('stroke-opacity') * of('fill-opacity') < 0.15;
    }).length"""
    before = figure.evaluate(faint)
    is_now = f"(number) => ({faint})(document.querySelector('#{FIGURE}')) === number"
    legend = figure.locator("svg .role-legend-symbol path")
    legend.first.click()
    page.wait_for_function(f"(number) => !({is_now})(number)", arg=before, timeout=10_000)
    one = figure.evaluate(faint)
    legend.nth(1).click(modifiers=["Shift"])
    page.wait_for_function(f"(number) => !({is_now})(number)", arg=one, timeout=10_000)
    assert before < figure.evaluate(faint) < one
    figure.locator("svg").click(position={"x": 5, "y": 5})
    page.wait_for_function(is_now, arg=before, timeout=10_000)


@in_browser
def test_the_keyboard_reaches_everything(reports: Path, opened: Window) -> None:
    page = opened.open(reports / "index.html")
    focused = "document.activeElement.innerText.trim()"
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "Skip to the content"
    box = page.locator(".skip").bounding_box()
    assert box is not None
    assert box["x"] >= 0  # it is seen once it has the focus
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    # Not a reload: the address ends with #content now, and the walk could begin there.
    page.goto("about:blank")
    opened.open(reports / "index.html")
    walked = []
    for _ in range(9):
        page.keyboard.press("Tab")
        walked.append(page.evaluate(focused))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", walked
    assert walked[walked.index("Answers") :][:2] == ["Answers", "Image-text study"]
    # Claims are closed; their groups and their controls open with a key, too.
    opened.open(reports / "pages/claims.html", drawn=False)
    group = page.locator("details.fold", has=page.locator(".verdicts .controls")).first
    inner = group.locator(".verdicts summary").first
    assert not inner.is_visible()
    for summary in (group.locator("summary").first, inner):
        summary.focus()
        page.keyboard.press("Space")
    assert group.locator(".verdicts .controls").first.is_visible()
    # Nothing but the target of the skip link is kept out of the walk.
    out = "[...document.querySelectorAll('[tabindex]')].filter((one) => one.tabIndex < 0)"
    assert page.evaluate(f"{out}.map((one) => one.id)") == ["content"]
    page.locator(".top nav a", has_text="Simulation").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/pages/simulation.html")


@in_browser
def test_pages_fit_a_narrow_window_and_paper(reports: Path, opened: Window) -> None:
    page = opened.page
    page.set_viewport_size({"width": 400, "height": 800})
    for path in pages_of(reports):
        opened.open(path, drawn=False)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, path.name
    page.set_viewport_size({"width": 1280, "height": 900})
    opened.open(reports / "pages" / "image_text.html")
    page.emulate_media(media="print")
    assert not page.locator(".top nav").is_visible()
    assert page.locator("main h1").is_visible()
    closed = page.locator("main details:not([open])").count()
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("main details:not([open])").count() == closed > 0
    page.emulate_media(media="screen")


@in_browser
def test_snakemakes_own_report_holds_the_whole_site(finished, opened, tmp_path) -> None:
    finished.snakemake("--report", str(tmp_path / "report.zip"))
    with zipfile.ZipFile(tmp_path / "report.zip") as archive:
        archive.extractall(tmp_path)
    (front,) = (tmp_path / "report/data/raw").glob("*/index.html")
    pages = sorted(front.parent.glob("*.html"))
    assert {path.name for path in pages} == {
        path.name for path in (finished.folder / "reports/pages").glob("*.html")
    }
    # Figures and tables are in it by themselves: links for download are not shown there.
    assert broken_links(front.parent, pages, without="download") == []
    whole = (tmp_path / "report/report.html").read_text()
    for name in ("Answers: begin here", "image_text", "purity_by_shuffling.svg", "metrics.parquet"):
        assert name in whole, name
    page = opened.open(front.parent / "image_text.html")
    assert empty_plots(page) == []
    assert page.locator("a.download:visible").count() == 0
    page.locator(".top nav a", has_text="Answers").click()
    page.wait_for_url("**/index.html")
    assert opened.complaints == []
