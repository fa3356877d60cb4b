"""Every figure: what it must have whatever is drawn, and that it survives what may be measured."""

from __future__ import annotations

import io
import itertools
import json
import re
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from mispair.evaluation.purity import map_rows
from mispair.files import UserError
from mispair.reporting import catalogue, charts, gallery, style
from mispair.reporting.figures import compose, render
from mispair.reporting.tables import COLUMNS, POINTS, Tables, tidy

EVIL = "<img src=x onerror=alert(1)> & \"'}{"
STARTS = tuple(style.FINE_TUNED)
FIGURES = {figure.name: figure for figure in catalogue.figures()}
POINT = 72 / 25.4
COLUMN = 85 * POINT
"""Width of a column of a page of two, half a page's, in points."""


# What might be measured ---------------------------------------------------------------------------


def arms(rates: int) -> list[tuple[str, str | None, float | None]]:
    steps = np.linspace(0, 0.9, rates).round(4).tolist()
    return [("untouched", None, None), *((start, "random", rate) for start in STARTS
                                         for rate in steps)]  # fmt: skip


def purity(rates: int, seeds: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    edges = np.linspace(-1, 1, 101).round(6)
    rows = []
    for (start, scheme, rate), tower in itertools.product(arms(rates), ("text", "image")):
        width = 0.05 + 0.1 * (rate or 0)
        for seed in range(1 if rate is None else seeds):
            here = {"start": start, "scheme": scheme, "rate": rate, "tower": tower, "seed": seed}
            level = 0.8 * width + 1e-3 * rng.random()
            shape = np.exp(-((edges[:-1] + 0.01) ** 2) / 2 / width**2) * rng.uniform(0.9, 1.1, 100)
            values = {
                "mean_abs_cosine": level,
                "random_reference": 0.04,
                "effective_rank": 60 - 10 * width,
                "mean_abs_cosine_rotated": level,
            }
            rows += [{"metric": name, "value": value, **here} for name, value in values.items()]
            rows += [
                {"metric": "cosine_histogram", "value": share, "bin_low": low, "bin_high": high,
                 **here} for share, low, high in zip(shape / shape.sum(), edges, edges[1:],
                                                     strict=False)
            ]  # fmt: skip
    return rows


def maps(rates: int) -> list[dict[str, Any]]:
    rows = []
    ends = {arm for arm in arms(rates) if arm[0] == "untouched" or (
        arm[0] == "pretrained" and arm[2] in (0.0, 0.9))}  # fmt: skip
    for number, (start, scheme, rate) in enumerate(sorted(ends, key=str)):
        for tower in ("text", "image"):
            matrix = np.random.default_rng(number).normal(size=(16, 96))
            about = {"start": start, "scheme": scheme, "rate": rate, "tower": tower, "seed": 0}
            rows += [{**about, **row} for row in map_rows(matrix, 40)]
    return rows


def scored(rates: int, seeds: int, sets: list[str]) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    return [
        {"start": start, "scheme": scheme, "rate": rate, "evaluation_set": name, "seed": seed,
         "protocol": "clip_benchmark" if metric == "acc1" else None, "metric": metric,
         "value": 0.7 - 0.2 * (rate or 0) + 0.01 * rng.random(), "chance": 0.1, "n": 100,
         "fingerprint": "a" * 16}
        for start, scheme, rate in arms(rates) for name in sets
        for metric in ("acc1", "silhouette") for seed in range(1 if rate is None else seeds)
    ]  # fmt: skip


def pruned(sets: list[str], draws: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(2)
    ranked = [
        (strategy, tower, 0)
        for strategy in (
            "high-purity",
            "low-purity",
            "high-variance",
            "low-variance",
            "high-norm",
            "low-norm",
        )
        for tower in ("text", "image", "both")
    ]
    ranked += [("random", "none", draw) for draw in range(draws)]
    return [
        {"start": "untouched", "evaluation_set": name, "protocol": "clip_benchmark" if metric ==
         "acc1" else None, "normalised": normalised, "basis": basis, "strategy": strategy,
         "ranked_by": tower, "draw": draw, "metric": metric, "seed": 0, "k": k,
         "value": 0.5 + k / 200 + 0.01 * rng.random()}
        for name in sets for metric in ("acc1", "silhouette")
        for normalised in ("masked", "renormalised") for basis in ("original", "rotated-0")
        for k in (8, 16, 32, 64) for strategy, tower, draw in ranked
    ]  # fmt: skip


def semantics(neurons: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    return [
        {"start": "untouched", "tower": tower, "seed": 0, "basis": basis, "neuron": neuron,
         "metric": "best_correlation", "feature": EVIL, "value": rng.uniform(-1, 1),
         "overlap": rng.random(), "n": 100}
        for tower in ("text", "image") for basis in ("original", "rotated-0")
        for neuron in range(neurons)
    ]  # fmt: skip


def compared(models: int, sets: list[str]) -> list[dict[str, Any]]:
    return [
        {"pretraining": "CC12M", "architecture": "ViT-B/16", "method": method, "towers": f"{method}"
         f"-{number}", "model": f"m{number}", "evaluation_set": name, "protocol": "laclip",
         "metric": metric, "value": 0.5 + 0.001 * number, "low": 0.4, "high": 0.6, "n": 100,
         "headline": "acc1", "fingerprint": "b" * 16}
        for number in range(models) for method in ("CLIP", "LaCLIP") for name in sets
        for metric in ("acc1", "silhouette")
    ]  # fmt: skip


def corpus() -> list[dict[str, Any]]:
    names = ("caption_words", "caption_characters", "image_shorter_side")
    return [
        {"metric": f"{name}_histogram", "bin_low": low, "bin_high": high, "value": 5, "n": 15}
        for name in names for low, high in ((0, 2), (2, 4), (4, None))
    ]  # fmt: skip


CURVES = {
    "alignment_norm": 1.0, "alignment_error": 0.1, "alignment_true": 0.9,
    "alignment_spurious": 0.3, "alignment_other": 0.05,
}  # fmt: skip


def simulated(trials: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(4)
    rows: list[dict[str, Any]] = []
    for preset, c, trial, arm in itertools.product(
        ("as-written", "as-run"), (0.0, 0.3), range(trials), ("raw", "filtered")
    ):
        here = {
            "condition": preset,
            "preset": preset,
            "kind": "preset",
            "trial": trial,
            "spurious_probability": c,
            "trained_on": arm,
            "definition_main": preset,
        }
        values = {name: 0.5 + 0.01 * rng.random() for name in (
            *style.MEASURES, "replaced_share_bad", "replaced_share_clean")}  # fmt: skip
        rows += [{**here, "metric": name, "value": value} for name, value in values.items()]
        rows += [
            {**here, "metric": name, "source": source, "value": 0.5 + 0.01 * rng.random()}
            for name in ("caption_true", "caption_spurious")
            for source in style.SOURCES
        ]
        rows += [{**here, "metric": "cosine_histogram", "tower": tower, "bin_low": low / 50,
                  "bin_high": (low + 1) / 50, "value": rng.integers(1, 50)}
                 for tower in ("text", "image") for low in range(50)]  # fmt: skip
        if preset == "as-written" and arm == "raw":
            rows += [{**here, "metric": name, "source": source, "step": step,
                      "value": factor * 1.05**step * rng.uniform(0.9, 1.1)}
                     for name, factor in CURVES.items() for step in range(0, 48, 8)
                     for source in ("measured", "eq34", "eq35")
                     if (name, source) != ("alignment_error", "measured")]  # fmt: skip
        if preset == "as-written":
            rows += [{**here, "condition": f"bridge~{switch}", "kind": "bridge", "switch": switch,
                      "metric": name, "value": value + 0.1}
                     for switch in ("loss", "noise") for name, value in values.items()]  # fmt: skip
            rows += [
                {
                    **here,
                    "condition": f"grid~0.1~groups~{bias}",
                    "kind": "grid",
                    "misalignment": "groups",
                    "bias_schedule": bias,
                    "metric": name,
                    "image_noise_variance": 0.1,
                    "value": value + 0.1 * (arm == "filtered"),
                }
                for bias in ("zero", "practical")
                for name, value in values.items()
            ]
        rows += points(here, rng)
    return rows


def points(here: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    rows = [
        {**here, "metric": "neuron_alignment", "tower": tower, "neuron": neuron,
         "x": rng.uniform(0.5, 1), "y": rng.uniform(0, 0.5)}
        for tower in ("text", "image") for neuron in range(20)
    ]  # fmt: skip
    rows += [{**here, "metric": "tsne", "label": number % 10, "x": x, "y": y}
             for number, (x, y) in enumerate(rng.normal(size=(40, 2)))]  # fmt: skip
    if here["trained_on"] == "filtered":
        rows += [
            {**here, "metric": "caption_feature", "source": source, "pair": pair,
             "latent": feature, "replaced": pair % 2, "x": x, "y": y}
            for pair in range(3)
            for feature, (x, raw, filtered) in enumerate(((1, 1, 1), (-1, 0, -1), (1, -1, 1),
                                                          (0, 1, 0), (0, 0, 1)))
            for source, y in (("raw", raw), ("filtered", filtered))
        ]  # fmt: skip
    return rows


@cache
def measured(
    rates: int = 3, seeds: int = 3, sets: int = 2, models: int = 2, neurons: int = 30,
    trials: int = 3, draws: int = 4,
) -> Tables:  # fmt: skip
    names = [EVIL, *(f"set {number}" for number in range(1, sets))]
    of_simulation = simulated(trials)
    shares = ("swapped_share", "text_changed_share")
    other = [{**row, "scheme": "similar"} for row in (*purity(rates, seeds), *scored(
        rates, seeds, names)) if row["start"] == "pretrained" and row["rate"]]  # fmt: skip
    rows = {
        "purity": [*purity(rates, seeds), *(row for row in other if "tower" in row)],
        "purity_map": maps(rates),
        "zeroshot": [*scored(rates, seeds, names), *(r for r in other if "tower" not in r)],
        "pruning": pruned(names, draws),
        "semantics": semantics(neurons),
        "checkpoints": compared(models, names),
        "corpus": corpus(),
        "pairs": [{"metric": name, "scheme": "random", "rate": rate, "value": rate or 0.0, "n": 9}
                  for name in shares for _, _, rate in arms(rates)[1:rates + 1]],
        "simulation": [row for row in of_simulation if row["metric"] not in POINTS],
        "simulation_points": [row for row in of_simulation if row["metric"] in POINTS],
    }  # fmt: skip
    return Tables.of({name: tidy(name, own) for name, own in rows.items()})


@cache
def composed(name: str, **size: int) -> tuple[dict[str, Any], pd.DataFrame]:
    return compose(FIGURES[name], measured(**size), 12, 10_000)


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


WITHOUT_AXES = ("simulation_tsne",)
"""Figures whose axes mean nothing: distances in t-SNE have no unit."""


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_hover_values_titled_axes_and_few_points(name):
    spec, data = composed(name)
    assert "hole" not in meta(spec), meta(spec)
    assert meta(spec)["sentence"].endswith(".")
    assert 0 < len(data) <= 10_000
    marks = list(views(spec))
    for mark, encoding in marks:
        told = "tooltip" in encoding
        for channel in ("x", "y"):
            place = encoding.get(channel, {})
            if "field" not in place or place.get("axis", "") is None:
                assert name in WITHOUT_AXES or "field" not in place
                continue
            silent = place.get("axis", {}).get("labels") is False
            title = place.get("title", "")
            # Bands, bars of errors and level lines share the axis of what they belong to.
            assert title or silent or mark["type"] in ("area", "rule", "text"), place
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


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_drawn_in_every_form_and_read_in_a_column(name):
    drawn = render(FIGURES[name], measured(), 12, 18, 10_000)
    with Image.open(io.BytesIO(drawn.png)) as picture:
        grey = np.asarray(picture.convert("L"))
    assert (grey < 200).mean() > 0.002
    assert len(np.unique(grey)) > 8
    width = float(re.search(r'width="([\d.]+)"', drawn.svg)[1])
    assert abs(grey.shape[1] - 1.5 * width) < 2
    assert 18 * COLUMN / width > 4.8, f"letters of {18 * COLUMN / width:.1f} points"
    assert EVIL not in drawn.svg
    assert "<img" not in drawn.svg
    streams = re.findall(rb"stream\n(.*?)\nendstream", drawn.pdf, re.S)
    painted = b"".join(_inflated(stream) for stream in streams)
    assert len(re.findall(rb"\b(?:f|S|B)\b", painted)) > 10
    assert painted.count(b"Tj") + painted.count(b"TJ") > 3
    start = int(re.search(rb"startxref\n(\d+)", drawn.pdf)[1])
    assert drawn.pdf[start:].startswith(b"xref\n")
    for number, place in enumerate(re.findall(rb"(\d{10}) 00000 n", drawn.pdf), start=1):
        assert drawn.pdf[int(place) :].startswith(b"%d 0 obj" % number)


def _inflated(stream: bytes) -> bytes:
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""


@pytest.mark.parametrize(("name", "rates"), [(name, 50) for name in FIGURES])
def test_many_arms_sets_and_models_are_still_drawn(name, rates):
    """4 starts at 13 or 50 rates, 5 seeds, on 12 sets: 52 and 200 arms; 50 models on 12 sets."""
    spec, data = composed(name, rates=rates, seeds=5, sets=12, models=25, neurons=2048)
    assert "hole" not in meta(spec), meta(spec)
    assert 0 < len(data) <= 10_000
    assert len(json.dumps(spec, separators=(",", ":"))) < 600_000
    heights = [view["height"] for view in _sized(spec) if isinstance(view.get("height"), int)]
    assert sum(heights) < 8_000


def test_a_page_of_fifty_arms_on_twelve_sets_stays_below_two_megabytes():
    size = {"rates": 13, "seeds": 5, "sets": 12, "neurons": 512}
    names = [figure.name for figure in catalogue.figures("image_text")]
    specs = [json.dumps(composed(name, **size)[0], separators=(",", ":")) for name in names]
    # The rest is for words and tables.
    assert sum(map(len, specs)) < 1_400_000


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
    if "low" not in data or name == "checkpoints":
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
               if column in COLUMNS[table]}
        )
        for table in COLUMNS
    }  # fmt: skip
    for tables in (Tables.of(nothing), Tables.of({})):
        spec, data = compose(FIGURES[name], tables, 12, 10_000)
        assert len(meta(spec)["hole"]) > 10
        assert data.empty


@pytest.mark.parametrize("name", FIGURES)
def test_some_missing_numbers_leave_the_others(name):
    tables = measured()
    holed = {}
    for table in COLUMNS:
        frame = getattr(tables, table).copy()
        for column in ("value", "x"):
            if column in frame:
                frame.loc[frame.index % 7 == 0, column] = np.nan
        holed[table] = frame
    spec, _ = compose(FIGURES[name], Tables.of(holed), 12, 10_000)
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


def linear(hue: str) -> np.ndarray:
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


def test_the_distance_sees_what_colour_blind_readers_confuse():
    assert (
        distance("#00b000", "#b06000")
        < 15
        < np.linalg.norm(lab("#00b000", "normal") - lab("#b06000", "normal"))
    )
    assert distance("#000000", "#ffffff") == pytest.approx(100, abs=0.1)


def scales(spec: dict[str, Any], channel: str) -> dict[str, dict[str, str]]:
    """Return what each field's values look like, of all views of a figure."""
    found: dict[str, dict[str, str]] = {}
    for _, encoding in views(spec):
        scale = encoding.get(channel, {}).get("scale", {})
        if "range" in scale and "domain" in scale:
            pairs = zip(scale["domain"], map(str, scale["range"]), strict=True)
            found.setdefault(encoding[channel]["field"], {}).update(pairs)
    return found


@pytest.mark.parametrize("name", FIGURES)
def test_colours_of_a_figure_stay_apart_for_colour_blind_readers(name):
    spec, _ = composed(name)
    shapes = scales(spec, "shape") | scales(spec, "strokeDash")
    for field, colours in scales(spec, "color").items():
        for (one, hue), (other, second) in itertools.combinations(colours.items(), 2):
            by_shape = shapes.get(field, {})
            if by_shape.get(one) == by_shape.get(other):
                assert distance(hue, second) >= APART, (one, other)
            assert (linear(hue) @ [0.2126, 0.7152, 0.0722] + 0.05) * 3 <= 1.05 + 0.02, one


def test_a_name_has_one_colour_in_all_figures():
    seen: dict[tuple[str, str], set[str]] = {}
    for name in FIGURES:
        for field, colours in scales(composed(name)[0], "color").items():
            for value, hue in colours.items():
                # Neurons of a basis are drawn in the colour of their tower.
                if value not in ("own basis",):
                    seen.setdefault((field, value), set()).add(hue)
    assert len(seen) > 25
    assert not {key: hues for key, hues in seen.items() if len(hues) > 1}


# Toggles ------------------------------------------------------------------------------------------


def test_arms_strategies_and_schemes_can_be_singled_out():
    toggled = {name: composed(name)[0].get("params") for name in FIGURES}
    with_legend = {
        "purity_by_shuffling": "start", "accuracy_by_shuffling": "start", "pruning": "strategy",
        "purity_by_scheme": "scheme", "cosine_histogram": "rate", "checkpoints": "method",
        "simulation_figure1_as_run": "trained_on", "simulation_dynamics": "feature",
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
    assert charts.within(data, "x", 61)[1] == ""
    without, said = charts.within(data, "x", 60)
    assert len(without) == 11
    assert "Single runs" in said
    fewer, said = charts.within(data, "x", 6)
    assert len(fewer) <= 6
    assert {0.0, 9.0} <= set(fewer["x"].dropna())
    assert (fewer["layer"] == "untouched").sum() == 1
    assert "Of 10 values" in said


# README's pictures --------------------------------------------------------------------------------


def test_pictures_of_readme_are_small_and_holes_leave_them_alone(tmp_path):
    figures, pictures = tmp_path / "figures", tmp_path / "pictures"
    with pytest.raises(UserError, match="no figures"):
        gallery.make_pictures(figures, pictures)
    figures.mkdir()
    for name, figure in gallery.PICTURES.items():
        about = {"hole": "not run"} if name == "map" else {"sentence": "Yes."}
        Image.effect_noise((1300, 600), 50).save(figures / f"{figure}.png")
        chart = {"usermeta": {"mispair": about}}
        (figures / f"{figure}.vl.json").write_text(json.dumps(chart))
    pictures.mkdir()
    (pictures / "map.png").write_bytes(b"as it was")
    assert gallery.make_pictures(figures, pictures) == ["map"]
    assert (pictures / "map.png").read_bytes() == b"as it was"
    with Image.open(pictures / "purity.png") as small:
        assert small.size == (720, 332)
        assert small.mode == "P"
    assert {path.stem for path in pictures.iterdir()} == set(gallery.PICTURES)
    assert set(gallery.PICTURES.values()) <= set(FIGURES)
