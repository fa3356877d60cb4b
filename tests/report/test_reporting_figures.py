"""Every figure: what it must have whatever is drawn, and that it survives what may be measured."""

import io
import itertools
import json
import re
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema
from PIL import Image

from bench import pictures as gallery
from mispair.core.files import UserError
from mispair.image_text.report.arms import TOWERS
from mispair.image_text.report.claims import ACCURACY
from mispair.laclip.report.claims import METHODS
from mispair.pairs.corruption.scheme import schemes
from mispair.pretraining.settings import BASES
from mispair.report import charts, studies, style
from mispair.report.claims import THIRD
from mispair.report.figures import compose, few_colours, printed
from mispair.report.judge import judge
from mispair.report.tables import Tables, tidy
from mispair.simulation.report.runs import PRESETS
from mispair.stepsize.report.claims import SCHEDULES
from mispair.towers.arms import LABELS
from tests.made_up_tables import EVIL, measured
from tests.pretraining import pretraining_run
from tests.simulation import scaling_run
from tests.stepsize.stepsize_run import trained
from tests.stepsize.test_reporting_stepsize import PARTS, tables_of
from tests.sufficiency import sufficiency_run

STUDIES = ("image_text", "simulation", "laclip")
"""Whose measurements `measured` has."""
SCALING = "simulation_scaling"
FIGURES = {figure.name: figure for study in STUDIES for figure in studies.figures(study)
           if figure.name != SCALING}  # fmt: skip
OTHERS = {figure.name: figure for study in ("sufficiency", "stepsize", "pretraining", "simulation")
          for figure in studies.figures(study)
          if study != "simulation" or figure.name == SCALING}  # fmt: skip
"""Those of the studies that have made-up measurements of their own."""
QUANTITIES = ("to", "stepsize")
"""Fields whose colours are shades of a quantity."""
POINT = 72 / 25.4
COLUMN = 85 * POINT
"""Width of a column of a page of two, half a page's, in points."""


@cache
def others() -> Tables:
    rows = [row for part in PARTS for row in trained(*part)]
    whole = tables_of(rows)
    return whole.replace(
        sufficiency=tidy("sufficiency", sufficiency_run.everything()),
        pretraining=tidy("pretraining", pretraining_run.rows()),
        simulation=tidy("simulation", scaling_run.sweep(scaling_run.AS_STATED)),
    )


def made_up(name: str, **size: int) -> Tables:
    return others() if name in OTHERS else measured(**size)


@cache
def composed(name: str, **size: int) -> tuple[dict[str, Any], pd.DataFrame]:
    return compose((FIGURES | OTHERS)[name], made_up(name, **size))


def meta(spec: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = spec["usermeta"]["mispair"]
    return found


# What every figure has ----------------------------------------------------------------------------


def views(node: Any, encoding: dict[str, Any] | None = None) -> Iterator[tuple[Any, Any]]:
    """Yield every mark with all of its encoding, that of the layers around it included."""
    if isinstance(node, dict):
        own = {**(encoding or {}), **node.get("encoding", {})}
        if "mark" in node:
            mark = node["mark"]
            yield (mark if isinstance(mark, dict) else {"type": mark}), own
        for key, child in node.items():
            if key not in ("data", "encoding", "config", "usermeta"):
                yield from views(child, own)
    elif isinstance(node, list):
        for child in node:
            yield from views(child, encoding)


@pytest.mark.parametrize("name", FIGURES | OTHERS)
def test_a_figure_has_hover_values_titled_axes_and_few_points(name):
    spec, data = composed(name)
    # Altair would check each part when it is made, at each drawing.
    validate_jsonschema({key: spec[key] for key in spec.keys() - {"datasets"}}, load_schema())
    assert "hole" not in meta(spec), meta(spec)
    assert not (said := meta(spec)["sentence"]) or said.endswith(".")
    assert 0 < len(data) <= 10_000
    marks = list(views(spec))
    for mark, encoding in marks:
        told = "tooltip" in encoding
        for channel in ("x", "y"):
            place = encoding.get(channel, {})
            if "field" not in place:
                continue
            silent = place.get("axis", {}).get("labels") is False
            title = place.get("title", "")
            # Bands, bars of errors and level lines share the axis of what they belong to; names on
            # an axis say what they are.
            shares = mark["type"] in ("area", "rule", "text") or place["type"] == "nominal"
            assert title or silent or shares, place
        if mark["type"] not in ("area", "text", "line") and "field" in encoding.get("y", {}):
            assert told, (mark, encoding)
    lines = [encoding for mark, encoding in marks if mark["type"] == "line"]
    hovers = [encoding for mark, encoding in marks if "tooltip" in encoding]
    for line in lines:  # a line shows its values itself or through points at the same places
        fields = {channel: line[channel]["field"] for channel in ("x", "y")}
        assert "tooltip" in line or any(
            {channel: other.get(channel, {}).get("field") for channel in ("x", "y")} == fields
            for other in hovers
        )


@pytest.mark.parametrize("name", FIGURES | OTHERS)
def test_a_figure_is_drawn_in_every_form_and_read_in_a_column(name):
    drawn = printed(composed(name)[0], 18)
    svg, pdf = drawn["svg"].decode(), drawn["pdf"]
    with Image.open(io.BytesIO(drawn["png"])) as picture:
        grey = np.asarray(picture.convert("L"))
    assert (grey < 200).mean() > 0.002
    assert len(np.unique(grey)) > 8
    width = float(re.search(r'width="([\d.]+)"', svg)[1])
    assert abs(grey.shape[1] - 1.5 * width) < 2
    assert 18 * COLUMN / width > 4.8, f"letters of {18 * COLUMN / width:.1f} points"
    assert EVIL not in svg
    assert "<img" not in svg
    streams = re.findall(rb"stream\n(.*?)\nendstream", pdf, re.S)
    painted = b"".join(_inflated(stream) for stream in streams)
    assert len(re.findall(rb"\b(?:f|S|B)\b", painted)) > 10
    assert painted.count(b"Tj") + painted.count(b"TJ") > 3


@pytest.mark.parametrize("name", FIGURES | OTHERS)
def test_every_dashed_line_is_in_a_legend(name):
    dashed = 0
    for mark, encoding in views(composed(name)[0]):
        assert "strokeDash" not in mark
        if dash := encoding.get("strokeDash"):
            assert dash["legend"] or {*map(tuple, dash["scale"]["range"])} == {(1, 0)}
            dashed += 1
    assert dashed or name in {"checkpoints", "semantic_purity", "simulation_cosines",
                              "verdict_by_bound", "stepsize_accuracy"}  # fmt: skip


def test_panels_of_one_measured_thing_are_one_row_in_print():
    spec, _ = composed("purity_by_shuffling")
    printed = charts.for_paper(spec, 16)
    titles = [panel["title"].partition(":")[0] for panel in printed["concat"]]
    assert printed["columns"] == 2
    assert titles[::2] == titles[1::2] == ["Text", "Image", "Published"]


def _inflated(stream: bytes) -> bytes:
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""


@pytest.mark.parametrize("name", FIGURES)
def test_many_arms_sets_and_models_are_still_drawn(name):
    """200 arms, 4 starts at 50 rates, with 5 seeds on 12 sets; 50 models on 12 sets."""
    spec, data = composed(name, rates=50, seeds=5, sets=12, models=25, neurons=2048)
    assert "hole" not in meta(spec), meta(spec)
    assert 0 < len(data) <= 10_000
    assert len(json.dumps(spec, separators=(",", ":"))) < 600_000
    heights = [view["height"] for view in _sized(spec) if isinstance(view.get("height"), int)]
    assert sum(heights) < 8_000


def _sized(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "height" in node:
            yield node
        for key, child in node.items():
            if key != "data":
                yield from _sized(child)
    elif isinstance(node, list):
        for child in node:
            yield from _sized(child)


@pytest.mark.parametrize("name", FIGURES)
def test_one_seed_has_no_band_and_the_caption_says_so(name):
    spec, data = composed(name, seeds=1, trials=1, draws=1)
    several, of_several = composed(name)
    # Checkpoints and rotated bases have limits of their own.
    if "low" not in data or name in ("checkpoints", "semantics_by_shuffling"):
        return
    assert not data["low"].notna().any()
    assert "there is one run of each" in meta(spec)["sentence"]
    assert not [mark for mark, _ in views(spec) if mark["type"] == "area"]
    assert of_several["low"].notna().any()
    assert "there is one run of each" not in meta(several)["sentence"]
    assert [view for view in views(several) if "low" in json.dumps(view)]


@pytest.mark.parametrize("name", FIGURES)
def test_numbers_that_are_missing_leave_a_reason(name):
    nothing = {
        table: getattr(measured(), table).assign(
            **{column: np.nan for column in ("value", "x", "y", "low", "high")
               if column in studies.tables()[table].names}
        )
        for table in studies.tables()
    }  # fmt: skip
    for tables in (Tables(nothing), Tables({})):
        spec, data = compose(FIGURES[name], tables)
        assert len(meta(spec)["hole"]) > 10
        assert data.empty


@pytest.mark.parametrize("name", FIGURES)
def test_some_missing_numbers_leave_the_others(name):
    tables = measured()
    holed = {}
    for table in studies.tables():
        frame = getattr(tables, table).copy()
        for column in ("value", "x"):
            if column in frame:
                frame.loc[frame.index % 7 == 0, column] = np.nan
        holed[table] = frame
    spec, _ = compose(FIGURES[name], Tables(holed))
    assert "hole" not in meta(spec), meta(spec)
    json.dumps(spec, allow_nan=False)  # a browser reads no NaN
    assert "nan" not in re.findall(r"[a-z]+", meta(spec)["sentence"].lower())


# Colours ------------------------------------------------------------------------------------------

SIGHT = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
}  # fmt: skip
"""Of linear RGB (Machado, Oliveira and Fernandes 2009, severity 1)."""
APART = 20
"""CIE 1976 distance between two colours of one figure; 2.3 is just noticeable side by side."""
APART_IN_REPORT = 15
"""The same between any two colours of the report, for normal sight."""


def linear(hue: str) -> np.ndarray:
    hue = hue if len(hue) == 7 else "#" + "".join(2 * digit for digit in hue[1:])
    parts = np.array([int(hue[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(hue: str, sight: str) -> np.ndarray:
    to_xyz = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                       [0.0193339, 0.1191920, 0.9503041]])  # fmt: skip
    seen = to_xyz @ np.clip(SIGHT[sight] @ linear(hue), 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(seen > 216 / 24389, np.cbrt(seen), (24389 / 27 * seen + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one: str, other: str) -> float:
    return min(float(np.linalg.norm(lab(one, s) - lab(other, s))) for s in SIGHT)


def scales(spec: dict[str, Any], channel: str) -> dict[str, dict[str, str]]:
    """Return what each field's values look like, of all views of a figure."""
    found: dict[str, dict[str, str]] = {}
    for _, encoding in views(spec):
        scale = encoding.get(channel, {}).get("scale", {})
        if "range" in scale and "domain" in scale:
            pairs = zip(scale["domain"], map(str, scale["range"]), strict=True)
            found.setdefault(encoding[channel]["field"], {}).update(pairs)
    return found


def test_the_bound_in_force_is_a_framed_column_of_the_grid_of_verdicts():
    spec, data = composed("verdict_by_bound")
    in_force = data[np.isclose(data["share"], THIRD)]
    assert set(in_force["measure"]) == set(data["measure"])
    verdict = judge(ACCURACY, measured(), 0.95)
    (outcome,) = in_force.loc[in_force["measure"] == "accuracy", "outcome"]
    assert outcome == verdict.outcome
    tiles, frame = spec["concat"][0]["layer"]
    kept = re.fullmatch(r"abs\(datum.share - (.*)\) < (.*)", frame["transform"][0]["filter"])
    one, of = map(float, kept[1].split("/"))
    assert [*data["share"][abs(data["share"] - one / of) < float(kept[2])].unique()] == [THIRD]
    assert "in force" in tiles["encoding"]["x"]["axis"]["labelExpr"]


@pytest.mark.parametrize("name", FIGURES)
def test_a_start_has_its_one_name_in_legends_and_hover_texts(name):
    spec, _ = composed(name)
    for kind, channel in channels(spec):
        if channel.get("field") == "start" and kind != "detail":
            assert kind == "color", name
            labels, _, _ = channel["legend"]["labelExpr"].rpartition("[datum.label]")
            assert json.loads(labels) == LABELS, name


def channels(node: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the name and content of each channel of a chart, such as a hover value."""
    if isinstance(node, dict):
        for kind, of in node.get("encoding", {}).items():
            yield from ((kind, one) for one in (of if isinstance(of, list) else [of]))
    children = [*node.values()] if isinstance(node, dict) else node
    for child in children if isinstance(children, list) else ():
        yield from channels(child)


@pytest.mark.parametrize("name", FIGURES)
def test_colours_of_a_figure_stay_apart_for_colour_blind_readers(name):
    spec, _ = composed(name)
    shapes = scales(spec, "shape") | scales(spec, "strokeDash")
    for field, colours in scales(spec, "color").items():
        for (one, hue), (other, second) in itertools.combinations(colours.items(), 2):
            by_shape = shapes.get(field, {})
            if by_shape.get(one) == by_shape.get(other):
                assert distance(hue, second) >= APART, (one, other)


STYLE = (Path(charts.__file__).parent / "templates/style.css").read_text()
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])


def on_dark(hue: str) -> str:
    """Return a colour of a picture after the filter of the dark page, as CSS defines it."""
    part, angle = re.search(r"filter: invert\((.+?)\) hue-rotate\((.+?)deg\)", STYLE).groups()
    assert float(angle) == 180
    parts = np.array([int(hue[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    turned = float(part) + parts * (1 - 2 * float(part))
    # By 180 degrees the cosine of the definition is −1 and its sine 0.
    grey = turned @ [0.213, 0.715, 0.072]
    rotated = np.clip(2 * grey - turned, 0, 1)
    return "#" + "".join(f"{round(255 * one):02x}" for one in rotated)


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted(float(linear(hue) @ LUMINANCE) for hue in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


def hues(node: Any, key: str = "") -> Iterator[str]:
    """Yield the colours of marks and scales: not those of the axes' lines and of the ground."""
    if isinstance(node, dict):
        assert "scheme" not in node, "a scale's colours are declared in mispair.report.style"
        for name, value in node.items():
            if name not in ("config", "datasets", "usermeta", "data", "axis"):
                yield from hues(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from hues(value, key)
    elif isinstance(node, str) and re.fullmatch(r"#[0-9a-f]{6}", node):
        yield node


DARK_PAPER = re.findall(r"--paper: (#\w{6})", STYLE)[-1]


def test_white_becomes_the_dark_paper() -> None:
    assert on_dark("#ffffff") == DARK_PAPER


def test_text_stands_out_from_its_background() -> None:
    colours = dict(re.findall(r"--([\w-]+): (#\w+);", STYLE))
    assert round(contrast("#000", "#fff"), 1) == 21
    pairs = [(text, back) for text in ("ink", "quiet", "link") for back in ("paper", "soft")]
    pairs += [(name, f"{name}-back") for name in ("good", "bad", "open", "none")]
    pairs += [("ink", "bad-back"), ("link", "bad-back"), ("link", "none-back")]
    for text, back in pairs:
        assert contrast(colours[text], colours[back]) >= 4.5, (text, back)
    # Rules that name their colours themselves.
    for rule in re.findall(r"\{([^{}]*)\}", STYLE):
        text, back = (
            re.search(rf"(?:^|[;{{ ]){name}: (#[0-9a-f]{{3,6}});", rule)
            for name in ("color", "background")
        )
        if text and back:
            assert contrast(text[1], back[1]) >= 4.5, rule


@pytest.mark.parametrize("name", [*FIGURES, *OTHERS])
def test_colours_of_a_figure_stand_out_on_the_light_and_the_dark_page(name) -> None:
    found = {*hues(composed(name)[0])}
    assert found
    for hue in found:
        assert contrast(hue, "#ffffff") >= 3, hue
        assert contrast(on_dark(hue), DARK_PAPER) >= 3, hue


def test_a_meaning_has_one_colour_and_a_colour_one_meaning() -> None:
    """Meanings of several families are declared; a synonym has one family."""
    families = {name: [*of.values()] for name, of in style.COLOURS.items()} | {"": style.SPARE}
    shared = {*style.SHARED}
    owners: dict[str, set[str]] = {}
    for family, found in families.items():
        for hue in {*found} - shared:
            owners.setdefault(hue, set()).add(family)
    assert not {hue: names for hue, names in owners.items() if len(names) > 1}
    for one, other in itertools.combinations([*owners, *shared], 2):
        apart = float(np.linalg.norm(lab(one, "normal") - lab(other, "normal")))
        assert apart >= APART_IN_REPORT, (one, other)


def test_every_start_scheme_and_estimate_has_a_declared_colour() -> None:
    named = {"start": LABELS, "scheme": schemes(), "preset": PRESETS,
             "basis": BASES, "tower": TOWERS, "schedule": SCHEDULES, "method": METHODS}  # fmt: skip
    for family, names in named.items():
        assert {*names} <= {*style.COLOURS[family]}, family


def test_a_name_has_its_declared_colour_in_all_figures() -> None:
    """Names of a quantity, such as a level of the risk, have shades in place of a colour each."""
    declared = {name: {of[name] for of in style.COLOURS.values() if name in of}
                for of in style.COLOURS.values() for name in of}  # fmt: skip
    drawn: dict[str, set[str]] = {}
    for name in FIGURES | OTHERS:
        for field, colours in scales(composed(name)[0], "color").items():
            for value, hue in colours.items() if field not in QUANTITIES else ():
                drawn.setdefault(value, set()).add(hue)
    assert len(drawn) > 30
    assert {value: hues for value, hues in drawn.items() if not hues <= declared[value]} == {}


def test_legends_of_colours_have_titles_and_axes_of_the_share_one_name() -> None:
    shares = set()
    for name in FIGURES | OTHERS:
        for _, encoding in views(composed(name)[0]):
            channel = encoding.get("color", {})
            if "field" in channel and channel.get("legend", True):
                title = channel.get("title") or channel["legend"].get("title")
                assert title, (name, channel["field"])
            x = encoding.get("x", {})
            if x.get("field") == "rate" or str(x.get("title", "")).startswith("Share of captions"):
                shares.add(x["title"])
    assert shares == {style.CM, style.CS}


# Toggles ------------------------------------------------------------------------------------------


def test_arms_strategies_and_schemes_can_be_singled_out():
    toggled = {name: composed(name)[0].get("params") for name in FIGURES}
    with_legend = {
        "purity_by_shuffling": "start", "accuracy_by_shuffling": "start", "pruning": "kept",
        "purity_by_scheme": "scheme", "checkpoints": "method",
        "simulation_figure1_as_run": "trained_on", "semantic_purity": "basis",
    }  # fmt: skip
    for name, field in with_legend.items():
        (param,) = toggled[name]
        assert param["select"] == {"type": "point", "fields": [field]}
        assert param["bind"] == "legend"
        assert param["views"], name


def test_rows_are_left_out_in_the_order_that_costs_least():
    runs = pd.DataFrame({"x": np.repeat(np.arange(10.0), 5), "layer": "run"})
    means = pd.DataFrame({"x": np.arange(10.0), "layer": "mean"})
    level = pd.DataFrame({"x": [np.nan], "layer": ["untouched"]})
    data = pd.concat([runs, means, level], ignore_index=True)
    assert charts.within(data, "x", 61)[1] == []
    without, left_out = charts.within(data, "x", 60)
    assert len(without) == 11
    assert [note.key for note in left_out] == ["single_runs"]
    fewer, left_out = charts.within(data, "x", 6)
    assert len(fewer) <= 6
    assert {0.0, 9.0} <= set(fewer["x"].dropna())
    assert (fewer["layer"] == "untouched").sum() == 1
    assert (left_out[-1].key, left_out[-1].values["of"]) == ("some_values", 10)


# README's pictures --------------------------------------------------------------------------------


def test_pictures_of_readme_are_small_and_holes_leave_them_alone(tmp_path):
    figures, pictures = tmp_path / "figures", tmp_path / "pictures"
    with pytest.raises(UserError, match="no figures"):
        gallery.make_pictures(figures, pictures)
    (figures / "study").mkdir(parents=True)
    for name, figure in gallery.PICTURES.items():
        about = {"hole": "not run"} if name == "scale" else {"sentence": "Yes."}
        Image.effect_noise((1300, 600), 50).save(figures / "study" / f"{figure}.png")
        chart = {"usermeta": {"mispair": about}}
        (figures / "study" / f"{figure}.vl.json").write_text(json.dumps(chart))
    pictures.mkdir()
    (pictures / "scale.png").write_bytes(b"as it was")
    assert gallery.make_pictures(figures, pictures) == ["scale"]
    assert (pictures / "scale.png").read_bytes() == b"as it was"
    with Image.open(pictures / "purity.png") as small:
        assert small.size == (720, 332)
        assert small.mode == "P"
    assert {path.stem for path in pictures.iterdir()} == set(gallery.PICTURES)
    assert set(gallery.PICTURES.values()) <= set(FIGURES)


def test_fewer_colours_keep_the_hues_of_thin_lines() -> None:
    """Smooth lines of many hues on white, each with all its paler shades at its edges."""
    hues = np.array([tuple(bytes.fromhex(hue[1:])) for hue in style.COLOURS["start"].values()])
    strength = np.linspace(0, 1, 300)[None, :, None]
    rows = 255 - (255 - hues[:, None]) * strength
    picture = np.full((600, 300, 3), 255, np.uint8)
    picture[10 : 10 + len(hues)] = rows
    kept = np.asarray(few_colours(Image.fromarray(picture)).convert("RGB")).astype(int)
    assert np.abs(kept[10 : 10 + len(hues), -1] - hues).max() <= 16
