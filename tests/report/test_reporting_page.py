"""The tables, figures and pages of a small made-up run, through the steps that write them."""

import json
import re
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest
from markupsafe import escape

from mispair.core import files
from mispair.image_text.report.pages import holes
from mispair.pairs.steps import draw_contact_sheet
from mispair.report import studies, texts
from mispair.report.charts import Drawing, Hole
from mispair.report.figures import compose, draw_of
from mispair.report.pages.study_pages import every_pages
from mispair.report.tables import read
from mispair.towers.arms import LABELS
from tests.browser import broken_links
from tests.made_up_tables import EVIL, TIDY, figure_file, gather
from tests.report.conftest import TITLE
from tests.report.small_run import (
    CHECKPOINTS,
    NOTHING,
    REPAIRED,
    make_pairs,
    make_run,
    pages,
    report,
)
from tests.visible_words import parsed, words

DECLARED = [claim for pages in every_pages() for claim in pages.claims]


@pytest.fixture(scope="module")
def html(whole: Path) -> str:
    return "".join(pages(whole).values())


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> dict[str, list[Path]]:
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.mark.parametrize("name", studies.NAMES)
def test_each_figure_of_a_study_is_drawn_by_the_function_of_its_name(name):
    module = import_module(f"mispair.{name}.report.figures")
    drawing = {
        key: function
        for key, function in vars(module).items()
        if not key.startswith("_") and returned(function) in ("Drawing | Hole", Drawing | Hole)
    }
    assert {key: function.__name__ for key, function in drawing.items()} == {
        figure.name: figure.name for figure in studies.drawn(name)
    }
    assert {figure: draw_of(figure) for figure in drawing} == drawing


def returned(function: object) -> object:
    return getattr(function, "__annotations__", {}).get("return")


def test_a_figure_without_a_function_is_an_error_that_names_both(monkeypatch):
    monkeypatch.delattr("mispair.laclip.report.figures.checkpoints")
    with pytest.raises(LookupError, match=r"mispair\.laclip\.report\.figures: .* checkpoints "):
        draw_of("checkpoints")


def test_tables_are_tidy_and_read_back_as_they_were(whole):
    found = read({name[:-4]: whole / "tables" / name for name in TIDY})
    assert set(found.zeroshot["classname"].dropna()) == {EVIL, "7"}
    arms = found.purity[["start", "rate"]].drop_duplicates()
    assert len(arms) == 13
    assert arms.loc[arms["start"] == "untouched", "rate"].isna().all()
    assert found.simulation["features"].eq(50).all()
    histogram = found.simulation[found.simulation["metric"] == "cosine_histogram"]
    assert histogram["bin_high"].notna().all()
    counts = found.pairs.set_index("metric")["value"]
    assert counts["read"] == counts["kept"] + counts["rejected"] == 22
    everything, _ = files.read_parquet(whole / "tables" / "metrics.parquet")
    words_only = ("provenance", "repair_examples")
    measured = [table for name, table in found.frames.items() if name not in words_only]
    assert len(everything) == sum(map(len, measured)) > 0


def test_neither_the_order_of_inputs_nor_an_earlier_report_changes_a_byte(whole, run, tmp_path):
    files.write_text(tmp_path / "pages" / "old.html", "old")
    report({name: paths[::-1] for name, paths in run.items()}, tmp_path, title=TITLE)
    one, two = (
        {
            path.relative_to(folder): path.read_bytes()
            for name in ("tables", "figures", "latex", "pages")
            for path in (folder / name).rglob("*.*")
        }
        for folder in (whole, tmp_path)
    )
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []


BEYOND = {
    "simulation_figure1_as_written", "simulation_mixing", "simulation_bridge",
    "simulation_scaling", "stepsize_acceleration", "stepsize_bounds", "stepsize_accuracy",
    "compositional_by_shuffling", "semantics_by_shuffling",
}  # fmt: skip
"""Figures of what this small run did not do."""


def drawn() -> list[str]:
    return [figure.name for figure in studies.figures() if figure.name not in BEYOND]


def test_every_figure_has_its_forms(whole):
    for figure in studies.figures():
        spec = files.read_json(figure_file(whole, f"{figure.name}.vl.json"))
        about = spec["usermeta"]["mispair"]
        assert ("hole" in about) == (figure.name in BEYOND), figure.name
        if figure.name in BEYOND:
            # What was not measured has no empty picture.
            assert len([*(whole / "figures").glob(f"*/{figure.name}.*")]) == 1
        else:
            for form, start in (("svg", b"<svg"), ("pdf", b"%PDF-"), ("png", b"\x89PNG")):
                assert figure_file(whole, f"{figure.name}.{form}").read_bytes().startswith(start)
            assert not about["sentence"] or about["sentence"].endswith("."), figure.name
            assert len(pd.read_csv(figure_file(whole, f"{figure.name}.csv"))) > 0


def test_what_was_not_run_is_one_line_that_says_how_to_run_it(html):
    for name in BEYOND:
        (line,) = re.findall(f'<li id="figure-{name}">(.*?)</li>', html)
        settings = re.search(
            r"(simulate|measure_purity): {|train_two_layer\.grid|simulation-scaling\.yaml", line
        )
        # The made-up arms have no choice of captions, and none but the untouched one has features.
        unmade = ("compositional_by_shuffling", "semantics_by_shuffling")
        assert settings or name in unmade, line


def test_figures_hold_every_run_and_the_published_curve(whole):
    table = pd.read_csv(figure_file(whole, "simulation_figure1_as_run.csv"))
    assert table["layer"].value_counts().to_dict() == {"run": 48, "mean": 24, "published": 88}
    mean = table[(table["layer"] == "mean") & (table["metric"] == "accuracy")]
    own = table[(table["layer"] == "run") & (table["metric"] == "accuracy")]
    keys = ["trained_on", "spurious_probability"]
    spread = own.groupby(keys)["value"].std()
    found = mean.set_index(keys)
    pd.testing.assert_series_equal(
        found["high"] - found["value"], spread, check_names=False, atol=1e-6
    )


LOADED = ("src", "srcset", "data", "poster")
"""Attributes whose addresses a browser loads."""


def test_the_pages_ask_nothing_of_the_network(whole):
    for html in pages(whole).values():
        nodes = [*parsed(html).iter()]
        loaded = [node.get(name) for node in nodes for name in LOADED if node.get(name)]
        assert all(source.startswith(("data:", "assets/", "pages/assets/")) for source in loaded)
        links = [node.get("href", "") for node in nodes]
        assert not [link for link in links if re.match(r"(?:https?:)?//", link)]
        assert not [name for node in nodes for name in node.attrib if name.startswith("on")]
        assert "default-src 'none'" in html
        assert "@import" not in html
        assert "url(" not in html.split("</style>")[0]


def test_links_and_anchors_of_all_pages_resolve(whole):
    assert broken_links(whole, [whole / name for name in pages(whole)]) == []


def test_text_from_data_stays_text(whole, html):
    assert EVIL not in html
    assert EVIL in words(html)  # as the name of an evaluation set, and in captions
    # No script element ends early: pages have as many as they have charts, and one or two that
    # draw them.
    for name, page in pages(whole).items():
        charts = page.count('type="application/json"')
        assert page.count("</script>") == page.count("<script") == charts + (2 if charts else 1), (
            name
        )


def test_json_in_the_page_is_whole(html):
    found = re.findall(r'<script type="application/json" id="spec-(\w+)">(.*?)</script>', html)
    assert {name for name, _ in found} == set(drawn())
    for _, text in found:
        assert json.loads(text)["usermeta"]["mispair"]["title"]


def test_the_page_says_what_is_measured_and_what_speaks_against(html):
    seen = words(html)
    assert "Do neurons of little overlap classify better?" in seen
    assert "contradicts" in seen
    assert "silhouette on <script>" in seen  # the values that are not defined
    assert "no-image" in seen
    assert "Read = kept + rejected + excluded." in seen
    assert "as-written was not run" in seen
    assert "1 min 30 s" in seen
    assert "90.0 %" in seen
    assert "nan" not in seen.lower().split()
    assert "Neuron 7 of the gallery" in seen
    assert "The same model under every protocol: untouched" in seen
    assert "clip_benchmark #a1b2c3d4" in seen
    assert "Tables 2 and 3 (LaCLIP" not in seen


@pytest.mark.parametrize("study", [study.key for study in studies.studies()])
def test_one_study_alone_is_reported(study, run, tmp_path):
    own = {"simulation": {"simulation"}, "stepsize": {"stepsize"}, "sufficiency": {"sufficiency"},
           "pretraining": {"pretraining"}, "audit": {"audit", "selection", "calibration"},
           "repair": {*REPAIRED}, "laclip": {*CHECKPOINTS}}  # fmt: skip
    kept = own.get(study) or set(run) - set.union(*own.values())
    html = report({**NOTHING, **{name: run[name] for name in kept}}, tmp_path, draw=False)
    others = {other.key: other.title for other in studies.studies() if other.key != study}
    # On both landing pages, and on the page of claims.
    assert html.count("other configurations</summary>") == 3
    for claim in DECLARED:
        unmeasured = f"<code>{escape(claim.needs)}</code>" in html
        assert unmeasured or claim.study == study, claim.key
    written = {path.stem for path in (tmp_path / "pages").glob("*.html")}
    assert study in written
    assert not others.keys() & written
    front = (tmp_path / "index.html").read_text()
    assert [title for title in others.values() if title in front] == []


def test_a_missing_arm_is_named(run, tmp_path):
    overlaps = [path for number, path in enumerate(run["purity"]) if number != 2]
    tables = gather({"purity": overlaps, "pairings": run["pairings"]}, tmp_path)
    (note,) = [note for note in holes(tables) if note.key == "missing_arms"]
    assert note.values["table"] == "purity"
    assert LABELS["pretrained"] in texts.text(note)


def test_the_contact_sheet_shows_both_captions_and_survives_missing_images(tmp_path):
    made = make_pairs(tmp_path)
    settings = draw_contact_sheet.Settings(samples=20, shuffle_rate=0.7)
    draw_contact_sheet.run(
        settings, shards=made["shards"], sources=[], index=made["index"],
        pairing=made["pairings"], captions=[], contact_sheet=tmp_path / "sheet.html",
    )  # fmt: skip
    html = (tmp_path / "sheet.html").read_text(encoding="utf-8")
    assert html.count("Shuffled to") == 16
    assert html.count("Not swapped") == 4
    assert html.count("image not available") == 1
    assert "<i>C</i><sub>m</sub> = 0.8" in html
    assert len(html.encode()) <= 150_000
    assert "<script" not in html
    for key, other in (("000000", "000019"), ("000003", "000016")):
        entry = next(part for part in html.split("<li>") if f'"key">{key}' in part)
        assert entry.index(f'{key}</p>\n    <p class="swapped"') < entry.index(other)


def test_an_empty_corpus_has_an_empty_contact_sheet(tmp_path):
    draw_contact_sheet.run(
        draw_contact_sheet.Settings(), shards=[], sources=[], index=[], pairing=[],
        captions=[], contact_sheet=tmp_path / "sheet.html",
    )  # fmt: skip
    assert "No sample pair" in (tmp_path / "sheet.html").read_text()


def test_a_figure_of_too_many_points_says_so(whole, monkeypatch):
    found = read({name[:-4]: whole / "tables" / name for name in TIDY})
    figure = next(f for f in studies.figures() if f.name == "simulation_figure1_as_run")
    monkeypatch.setattr("mispair.report.figures.MOST_POINTS", 100)
    spec, _ = compose(figure, found)
    assert "more than the 100" in spec["usermeta"]["mispair"]["hole"]
