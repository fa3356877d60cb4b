"""Budgets of words on the pages of a made-up run, and what stands on the first screen."""

import re
from pathlib import Path

import pytest

from mispair.report import studies
from mispair.report.figures import compose
from mispair.report.pages import records
from mispair.report.pages.content import Content
from mispair.report.pages.site import build
from mispair.report.tables import Tables, read_csvs
from mispair.towers.arms import LABELS
from tests.browser import CHROMIUM, Window, window
from tests.made_up_tables import made_up
from tests.visible_words import LANDING, STUDY, parsed, visible_words, words

DEFAULT = ("image_text", "audit", "repair", "simulation")
"""Studies of the default run."""


def test_pages_keep_their_budgets_of_words(whole: Path) -> None:
    for name in studies.NAMES:
        html = (whole / f"pages/{name}.html").read_text()
        assert visible_words(html) <= STUDY, name


def test_the_landing_page_of_the_default_run_keeps_its_budget(whole: Path) -> None:
    tables = read_csvs((whole / "tables").glob("*.csv"))
    of_default = {"corpus", "pairs",
                  *(name for key in DEFAULT for name in studies.study(key).tables)}  # fmt: skip
    some = Tables({name: tables.frames[name] for name in of_default & tables.frames.keys()})
    front = build(Content(some, {}, {}, {}, None, title="", confidence=0.9, corpus="")).files
    assert front["index.html"].count('<div class="card') >= len(DEFAULT)
    assert visible_words(front["index.html"]) <= LANDING


def test_each_card_names_its_claim_in_words_and_leads_to_its_figure(whole: Path) -> None:
    html = (whole / "index.html").read_text()
    assert html.count('<div class="card') >= len(studies.NAMES)
    assert html.count('class="judged">') == html.count('<div class="card')
    assert html.count("#figure-") == html.count('<div class="card with-picture') > 0
    assert re.findall(r"(?:figure|table) \d", html) == []


def test_a_start_has_its_one_name_on_every_page(whole: Path) -> None:
    """Its key is for files and settings: of the run's page, and of what is written as code."""
    keys = sorted(name for name in LABELS if name not in {"pretrained", "untouched"})
    raw = re.compile(rf"\b({'|'.join(keys)}|pretrained)\b(?![-_])")
    for path in whole.rglob("*.html"):
        if path.name != "run.html":
            text = re.sub(r"<code>.*?</code>", "", path.read_text(), flags=re.DOTALL)
            assert raw.findall(words(text)) == [], path.name


def test_what_the_page_of_the_run_counts_and_its_settings_have_names_of_their_own() -> None:
    """Jobs are Snakemake's; several runs of steps share one. Each setting has its own name."""
    step = {"jobs": 3, "wall_seconds": 1.0, "core_seconds": 1.0, "commits": [], "devices": [],
            "seeds": ["seed 0", "seed 1", "seeds 5"]}  # fmt: skip
    record = {
        "git": {}, "mispair": "1", "platform": {"system": "x", "cores": 2},
        "steps": {"one": step, "other": step}, "results": {"a": {}}, "unrecorded": [],
    }  # fmt: skip
    rows = {str(name): str(cell) for name, cell in records.origin(record).rows}
    assert "6 runs" in rows["results"]
    assert not [cell for cell in rows.values() if re.search(r"\d+ jobs?\b", cell)]
    settings = {found: rows[name] for name in rows for found in re.findall(r"setting (\w+)", name)}
    assert settings == {"seed": "0, 1", "seeds": "5"}


def test_numbers_stay_with_their_units(whole: Path) -> None:
    """Cells of wide tables break at each blank, so that these fit."""
    apart = re.compile(r"\d (?:%|points?|pairs|percentage)")
    for path in whole.rglob("*.html"):
        root = parsed(path.read_text())
        wide = {id(cell) for table in root.iter("table") if table.get("class") == "wide"
                for cell in table.iter() if cell.tag != "caption"}  # fmt: skip
        seen = (node.text for node in root.iter() if id(node) not in wide and node.tag != "script")
        assert [text for text in seen if text and apart.search(text)] == [], path.name


def test_captions_name_no_sides_of_panels() -> None:
    """Panels wrap in print."""
    for figure in studies.figures():
        assert not re.search(r"\((above|below|left|right)\)", figure.about), figure.name


def test_a_low_level_of_chance_flattens_no_curve_of_accuracy() -> None:
    figure = next(f for f in studies.figures() if f.name == "accuracy_by_shuffling")
    tables = made_up(20, ["digits"], trials=0)  # accuracy from 0.88 to 0.90, chance 0.1
    spec, data = compose(figure, tables)
    assert "chance" in set(data["layer"])
    found = re.findall(r"'domain': \[(0\.\d+), (0\.\d+)\]", str(spec))
    assert found
    assert all(float(high) - float(low) < 0.06 for low, high in found)


in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


@in_browser
def test_the_first_screen_has_the_first_answer_and_its_limit(whole: Path) -> None:
    with window(1280, 800) as opened:
        page = opened.open(whole / "index.html", drawn=False)
        card = page.locator(".card").first
        assert "overlap" in card.locator("h2").inner_text()
        for part in (".answer", ".chip", ".limit", "img"):
            box = card.locator(part).first.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= 800, part


@in_browser
def test_no_table_is_clipped_at_1280_pixels(whole: Path) -> None:
    clipped = """[...document.querySelectorAll('.scroll')]
      .filter((one) => one.scrollWidth > one.clientWidth + 1)
      .map((one) => one.getAttribute('aria-label'))"""
    with window(1280, 800) as opened:
        for path in sorted(whole.glob("pages/*.html")):
            page = opened.open(path, drawn=False)
            page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
            assert page.evaluate(clipped) == [], path.name


@in_browser
def test_claims_are_filtered_by_study_and_verdict_with_the_keyboard(whole: Path) -> None:
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
        page = opened.open(whole / "pages/claims.html", drawn=False)
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
        page.goto((whole / "index.html").as_uri())
        page.locator("a.verdict").first.click()
        page.wait_for_url("**/claims.html#claim-*")
        anchor = page.url.partition("#")[2]
        assert page.locator(f"[id='{anchor}']").is_visible()
        page.locator(f"[id='{anchor}'] ~ td a, [id='{anchor}'] a").first.click()
        page.wait_for_url("**#figure-*")
        assert page.locator(f"[id='{page.url.partition('#')[2]}']").is_visible()
        assert opened.complaints == []
