"""The site of runs of every size: small enough, valid, navigable, and never without a page."""

import itertools
import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mispair.core import files
from mispair.pairs.report.contact_sheet import LARGEST_SHEET, alone
from mispair.report import rules, studies
from mispair.report.markup import piece_of
from mispair.report.pages import picture, study_pages
from mispair.report.pages.claims_table import COLUMNS
from tests.made_up_tables import EVIL, light_pictures, made_up, write_site
from tests.visible_words import parsed, words

SETS = ["digits", "a b", "../x", "A B", EVIL, *(f"set-{number}" for number in range(7))]

PIECES = (LARGEST_SHEET, 600_000)
"""Bytes of a contact sheet and of a gallery of neurons: the largest, and that of the demo."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """Write the site of fifty arms on twelve evaluation sets, all studies and every figure."""
    folder = tmp_path_factory.mktemp("large")
    sheet, gallery = (f'<div class="piece">{"pictures " * (size // 9)}</div>' for size in PIECES)
    # Pages take pictures in up to a size that this exceeds.
    with light_pictures(50_000):
        parts = write_site(made_up(50, SETS, models=2), folder, sheet=sheet, gallery=gallery)
    return folder, parts


def test_the_site_of_fifty_arms_on_twelve_sets_is_small(large: tuple[Path, list[Path]]) -> None:
    folder, parts = large
    sizes = {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in parts
        if path.suffix != ".csv"
    }
    # Pages show no picture that is a file of its own: html and scripts are all that they load.
    for path in parts:
        if path.suffix == ".html":
            assert re.findall(r'<img[^>]*src="(?!data:)', path.read_text()) == []
    assert sum(sizes.values()) <= 6_000_000, sizes
    pages = {name: size for name, size in sizes.items() if name.endswith(".html")}
    assert max(pages.values()) <= 2_000_000, pages
    # Landing page (twice), 3 studies, claims, methods and run.
    assert len(pages) == 2 + 3 + 3


def test_the_site_has_its_tables_for_latex_and_all_verdicts(large: tuple[Path, list[Path]]) -> None:
    folder, _ = large
    names = {path.stem for path in (folder / "latex").glob("*.tex")}
    assert {name.partition("-")[0] for name in names} >= {"claims", "simulation", "image_text"}
    assert "claims-claims-of-the-paper-and-what-was-measured" in names
    claims = pd.read_csv(folder / "tables/claims.csv")
    assert [*claims.columns] == [*COLUMNS]
    assert not claims.duplicated(["claim", "preset"]).any()
    assert {"overlap-rises", "accuracy-falls"} <= set(claims["claim"])


def _tables(node: Any) -> list[list[Any]]:
    """Return every inline table of a chart."""
    if isinstance(node, dict):
        own = [node["values"]] if isinstance(node.get("values"), list) else []
        own += node.get("datasets", {}).values()
        return own + [found for child in node.values() for found in _tables(child)]
    return [found for child in node for found in _tables(child)] if isinstance(node, list) else []


def test_no_chart_has_more_than_ten_thousand_points(large: tuple[Path, list[Path]]) -> None:
    folder, _ = large
    drawn = {
        path.name: max((len(table) for table in _tables(files.read_json(path))), default=0)
        for path in (folder / "figures").glob("*/*.vl.json")
    }
    assert len(drawn) == len(studies.drawn())
    assert max(drawn.values()) <= 10_000
    assert max(drawn.values()) > 500  # the tables were found


def test_every_page_is_valid_and_complete_by_itself(large: tuple[Path, list[Path]]) -> None:
    for path in large[1]:
        if path.suffix != ".html":
            continue
        root = parsed(path.read_text())
        ids = [node.get("id") for node in root.iter() if node.get("id")]
        assert len(ids) == len(set(ids)), path.name
        assert len(root.findall(".//h1")) == 1
        levels = [int(n.tag[1]) for n in root.iter() if re.fullmatch("h[1-6]", str(n.tag))]
        assert all(later - level <= 1 for level, later in itertools.pairwise(levels)), path.name
        assert all(image.get("alt") for image in root.iter("img"))
        current = [
            link for nav in root.iter("nav") for link in nav.iter("a")
            if link.get("aria-current") == "page"
        ]  # fmt: skip
        # Each page is in its own navigation, and marked there.
        assert len(current) == 1, path.name
        if path.parent.name == "pages":
            assert current[0].get("href") == path.name


def test_symbols_are_typeset_and_the_first_page_needs_none(large: tuple[Path, list[Path]]) -> None:
    pages = {path.name: path.read_text() for path in large[1] if path.suffix == ".html"}
    for name, html in pages.items():
        assert not re.search(r"\b[CS]_[a-z]\b", words(html)), name
    (cards,) = re.findall(r'<section id="answers".*?</section>', pages["index.html"], re.DOTALL)
    assert cards.count('class="card') > 5
    assert "<sub>" not in cards


def test_a_piece_of_the_report_is_a_page_of_its_own() -> None:
    piece = '<ul class="pairs"><li>a</li></ul>'
    page = alone(piece, f"Pairs {EVIL}")
    parsed(page)
    assert EVIL not in page
    assert "color-scheme: light dark" in page
    assert piece_of(page) == piece


def test_every_page_is_reached_from_every_page(large: tuple[Path, list[Path]]) -> None:
    pages = {path.name for path in large[1] if path.suffix == ".html"}
    for path in large[1]:
        if path.suffix == ".html":
            nav = next(parsed(path.read_text()).iter("nav"))
            linked = {Path(link.get("href")).name for link in nav.iter("a")}
            assert linked == pages, path.name


PLACES = [*(f"theorem 4.{number}" for number in range(1, 6)),
          *(f"figure {number}" for number in range(1, 9)),
          *(f"table {number}" for number in (2, 3, 4)), "public review"]  # fmt: skip


def _named(paper: str) -> set[str]:
    """Return the places that a row names: "figures 2(a-c) and 8" are figure 2 and figure 8."""
    found = {"public review"} & {paper}
    for kind, rest in re.findall(
        r"(theorem|figure|table)s? ([\d.()a-z, -]+(?:and [\d.]+)?)", paper
    ):
        found |= {f"{kind} {number}" for number in re.findall(r"\d(?:\.\d)?", rest)}
    return found


def test_every_theorem_figure_and_table_of_the_paper_has_a_row(large) -> None:
    root = parsed((large[0] / "pages/claims.html").read_text())
    named = [span.text for span in root.iter("span") if span.get("class") == "paper"]
    assert {*PLACES} <= set().union(*(_named(text) for text in named))


def test_the_presets_of_a_claim_stand_in_one_row(large: tuple[Path, list[Path]]) -> None:
    root = parsed((large[0] / "pages/claims.html").read_text())
    (row,) = [node for node in root.iter("tr") if node.get("id") == "claim-filtered-accuracy"]
    cells = row.findall("td")
    assert [cell.get("data-label") for cell in cells] == [
        "as-written", "as-run", "published", "see",
    ]  # fmt: skip
    for cell in cells[:2]:
        text = " ".join(" ".join(cell.itertext()).split())
        assert "supports" in text
        assert "99 % interval" in text  # the claim is primary
        assert "trials" in text
    link = next(cells[3].iter("a")).get("href")
    assert link == "simulation.html#figure-simulation_figure1_as_written"


def test_one_preset_alone_says_how_to_run_the_other(whole: Path) -> None:
    root = parsed((whole / "pages/claims.html").read_text())
    (row,) = [node for node in root.iter("tr") if node.get("id") == "claim-filtered-accuracy"]
    written, run = row.findall("td")[:2]
    assert "compare_presets" in "".join(written.itertext())
    assert "supports" in "".join(run.itertext())


@pytest.mark.parametrize(
    ("number", "seeds", "trials", "missing"),
    [(12, 1, 1, False), (0, 3, 0, False), (3, 1, 0, False), (12, 2, 0, True)],
    ids=["several arms", "nothing", "one seed", "no number is defined"],
)
def test_a_run_of_any_size_has_a_site(number, seeds, trials, missing, tmp_path) -> None:
    sets = [f"set {place}" for place in range(3)]
    parts = write_site(
        made_up(number, sets, seeds=seeds, trials=trials, missing=missing), tmp_path, draw=False
    )
    texts = {path.name: path.read_text() for path in parts if path.suffix == ".html"}
    for html in texts.values():
        parsed(html)
        assert "nan" not in words(html).lower().split()
    assert ("image_text.html" in texts) == (number > 0)
    assert ("simulation.html" in texts) == (trials > 0)
    front = words(texts["index.html"])
    if not number:
        assert "studies: [image_text]" in words(texts["claims.html"])
    if missing:
        assert "Missing. acc1 on set 0" in front
        assert "not defined" in front
    if number:
        holes = words(texts["image_text.html"]).split("Not part of this run")[-1]
        assert holes.count("the figure was not drawn") == len(studies.figures("image_text"))
        assert "No contact sheet" in words(texts["image_text.html"])
        assert "No gallery of neurons" in words(texts["image_text.html"])
    if seeds == 1 and number == 3:
        # One seed shows no spread: the claim on it is not decided.
        claims = pd.read_csv(tmp_path / "tables/claims.csv").set_index("claim")
        undecided = {rules.UNDECIDED, rules.UNMEASURED}
        assert {claims.at["overlap-rises", "outcome"], claims.at["accuracy-falls", "outcome"]} <= (
            undecided
        )


def unpacked(node: Any) -> Any:
    """Do what page.js does with the tables of a chart, written another way."""
    if isinstance(node, list):
        return [unpacked(item) for item in node]
    if not isinstance(node, dict):
        return node
    if {"rows", "columns"} <= node.keys():
        table: list[dict[str, Any]] = [{} for _ in range(node["rows"])]
        for name, column in node["columns"].items():
            for row, value in zip(table, column if isinstance(column, list) else column["at"],
                                  strict=True):  # fmt: skip
                own = value if isinstance(column, list) else column["of"][value]
                if own is not None:
                    row[name] = own
        return table
    return {key: unpacked(value) for key, value in node.items()}


def test_packed_tables_are_smaller_and_lose_nothing(large: tuple[Path, list[Path]]) -> None:
    for path in (large[0] / "figures").glob("*/*.vl.json"):
        spec = files.read_json(path)
        assert unpacked(picture.packed(spec)) == spec, path.name
    rows = [{"x": number, "arm": f"arm {number % 3}", "flag": True} for number in range(50)]
    rows[7] = {"x": 7}
    packed = picture.packed({"datasets": {"values": rows}})
    assert unpacked(packed) == {"datasets": {"values": rows}}
    assert unpacked(picture.packed({"values": rows})) == {"values": rows}
    assert len(str(packed)) < len(str(rows)) / 2


def test_every_claim_and_small_figure_is_on_one_question() -> None:
    claims = [claim for pages in study_pages.every_pages() for claim in pages.claims]
    assert {claim.study for claim in claims} == {study.key for study in studies.studies()}
    questions = [question for pages in study_pages.every_pages() for question in pages.questions]
    asked = [key for question in questions for key in question.claims]
    assert sorted(asked) == sorted(claim.key for claim in claims)
    figures = {figure.name for figure in studies.figures()}
    assert {claim.figure.format(preset="as_run") for claim in claims} <= figures
    small = [figure.name for study in studies.studies() for figure in study.small]
    assert sorted(question.figure for question in questions if question.figure) == sorted(small)


def test_the_viewer_is_bundled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "COMPILED", tmp_path / "new")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    bundles = iter(["one\r\n", "two"])
    monkeypatch.setattr(picture.vl_convert, "javascript_bundle", lambda **_: next(bundles))
    bundle = picture.viewer.__wrapped__
    assert [bundle(), bundle()] == ["one\r\n", "one\r\n"]
    (kept,) = (tmp_path / "new").iterdir()
    kept.write_bytes(b"\xff")  # from a failed disk
    assert [bundle(), bundle()] == ["two", "two"]
