"""Budgets of words on the pages of a made-up run, and what stands on the first screen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mispair.report import studies
from mispair.report.figures import compose
from tests.browser import CHROMIUM, Window, window
from tests.made_up_tables import light_pictures, made_up, write_site
from tests.report.test_reporting_page import NOTHING, make_run, report
from tests.visible_words import LANDING, STUDY, visible_words

DEFAULT = ("image_text", "audit", "repair", "simulation")
"""Studies of the default run."""

OTHERS = (
    "sufficiency", "stepsize", "pretraining",
    "checkpoint_zeroshot", "checkpoint_purity", "checkpoint_origins",
)  # fmt: skip
"""Kinds of results of the other studies."""


def test_closed_parts_and_texts_for_screen_readers_are_not_counted() -> None:
    html = (
        "<head><title>no</title></head><body>one <b>two</b> <span class='hidden'>no</span>"
        "<details><summary>three <i>four</i></summary>no <details open><p>no</p></details>"
        "</details> five <details open><summary>six</summary> seven</details><script>no</script>"
    )
    assert visible_words(html) == 7


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report of a made-up run of the default studies."""
    folder = tmp_path_factory.mktemp("default")
    run = make_run(folder)
    report({**NOTHING, **{k: v for k, v in run.items() if k not in OTHERS}}, folder)
    return folder


def test_pages_keep_their_budgets_of_words(made: Path) -> None:
    counts = {path.name: visible_words(path.read_text()) for path in made.glob("pages/*.html")}
    print(counts)
    assert {f"{name}.html" for name in DEFAULT} <= counts.keys()
    assert counts["index.html"] <= LANDING
    assert visible_words((made / "index.html").read_text()) <= LANDING
    for name in studies.NAMES:
        assert counts.get(f"{name}.html", 0) <= STUDY, name


def test_the_landing_page_has_no_card_of_a_study_that_was_not_run(made: Path) -> None:
    html = (made / "index.html").read_text()
    assert html.count('<div class="card') >= len(DEFAULT)
    # Each card names its claim in words, and its picture leads to the full figure.
    assert html.count('class="judged">') == html.count('<div class="card')
    assert html.count("#figure-") == html.count('<div class="card with-picture') > 0
    for declared in studies.studies():
        if declared.key not in DEFAULT:
            assert declared.title not in html
    assert re.findall(r"(?:figure|table) \d", html) == []


@pytest.mark.parametrize("name", [figure.name for figure in studies.figures()])
def test_captions_name_no_sides_of_panels(name: str) -> None:
    """Panels wrap in print."""
    figure = next(figure for figure in studies.figures() if figure.name == name)
    assert not re.search(r"\((above|below|left|right)\)", figure.about)


def test_a_low_level_of_chance_flattens_no_curve_of_accuracy() -> None:
    figure = next(f for f in studies.figures() if f.name == "accuracy_by_shuffling")
    tables = made_up(20, ["digits"], trials=0)  # accuracy from 0.88 to 0.90, chance 0.1
    spec, data = compose(figure, tables, 12, 10_000)
    assert "chance" in set(data["layer"])
    found = re.findall(r"'domain': \[(0\.\d+), (0\.\d+)\]", str(spec))
    assert found
    assert all(float(high) - float(low) < 0.06 for low, high in found)


in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the site of a few arms and two presets."""
    folder = tmp_path_factory.mktemp("small")
    with light_pictures():
        write_site(made_up(6, ["digits"], trials=3), folder)
    return folder


@in_browser
def test_the_first_screen_has_the_first_answer_and_its_limit(small: Path) -> None:
    with window(1280, 800) as opened:
        page = opened.open(small / "index.html", drawn=False)
        card = page.locator(".card").first
        assert "overlap" in card.locator("h2").inner_text()
        for part in (".answer", ".chip", ".limit", "img"):
            box = card.locator(part).first.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= 800, part


@in_browser
def test_no_table_is_clipped_at_1280_pixels(made: Path) -> None:
    clipped = """[...document.querySelectorAll('.scroll')]
      .filter((one) => one.scrollWidth > one.clientWidth + 1)
      .map((one) => one.getAttribute('aria-label'))"""
    with window(1280, 800) as opened:
        for path in sorted(made.glob("pages/*.html")):
            page = opened.open(path, drawn=False)
            page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
            assert page.evaluate(clipped) == [], path.name


@in_browser
def test_claims_are_filtered_by_study_and_verdict_with_the_keyboard(small: Path) -> None:
    def shown(opened: Window) -> set[tuple[str, str]]:
        return {
            tuple(pair)
            for pair in opened.page.evaluate(
                """[...document.querySelectorAll('.claims tbody')]
                  .filter((one) => one.getBoundingClientRect().height > 0)
                  .map((one) => [one.closest('.claims').dataset.study, one.dataset.outcomes])"""
            )
        }

    with window(1280, 900) as opened:
        page = opened.open(small / "pages/claims.html", drawn=False)
        assert page.locator(".claims details[open]").count() == 0
        assert page.locator(".claims table:visible").count() == 0
        page.locator("#filter-study").focus()
        page.select_option("#filter-study", "simulation")
        assert {study for study, _ in shown(opened)} == {"simulation"}
        assert page.locator("#title-image_text").is_hidden()
        page.select_option("#filter-outcome", "supports")
        assert shown(opened)
        assert all("supports" in outcomes.split("|") for _, outcomes in shown(opened))
        assert re.fullmatch(r"\d+ claims?", page.locator("#filter-count").inner_text())
        page.select_option("#filter-study", "")
        page.select_option("#filter-outcome", "")
        assert page.locator(".claims details[open]").count() == 0
        # A link to a claim opens its group.
        page.goto((small / "index.html").as_uri())
        page.locator("a.verdict").first.click()
        page.wait_for_url("**/claims.html#claim-*")
        anchor = page.url.partition("#")[2]
        assert page.locator(f"[id='{anchor}']").is_visible()
        page.locator(f"[id='{anchor}'] ~ td a, [id='{anchor}'] a").first.click()
        page.wait_for_url("**#figure-*")
        assert page.locator(f"[id='{page.url.partition('#')[2]}']").is_visible()
        assert opened.complaints == []
