"""Tests of the evaluation sets: layout, classes, and what is out of domain."""

from __future__ import annotations

import collections
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from mispair import files, seeds
from mispair.pairs.draws import Draws
from mispair.pairs.evaluation_sets import EVALUATION_SETS, evaluation_scene
from mispair.pairs.scene_features import (
    COLOURS,
    DIGITS,
    HELD_OUT_DIGIT_COLOURS,
    HELD_OUT_SHAPE_COLOURS,
    SHAPES,
)
from mispair.steps import make_evaluation_set

SCENE_SETS = [name for name in EVALUATION_SETS if name.startswith("scenes")]


def read_set(folder: Path) -> tuple[list[Image.Image], list[int]]:
    with tarfile.open(folder / "test" / "0.tar") as tar:
        content = {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]
    keys = sorted({name.split(".")[0] for name in content})
    assert list(content) == [f"{key}.{end}" for key in keys for end in ("cls", "png")]
    assert keys == [f"s{i:07d}" for i in range(len(keys))]
    pictures = [Image.open(io.BytesIO(content[f"{key}.png"])) for key in keys]
    return pictures, [int(content[f"{key}.cls"]) for key in keys]


@pytest.mark.parametrize("name", SCENE_SETS)
def test_sets_of_scenes_have_the_layout_of_clip_benchmark(name: str, tmp_path: Path) -> None:
    settings = make_evaluation_set.Settings(images=40, image_size=32)
    make_evaluation_set.run(settings, name=name, evaluation_set=tmp_path / "one")
    make_evaluation_set.run(settings, name=name, evaluation_set=tmp_path / "two")
    tars = [(tmp_path / folder / "test" / "0.tar").read_bytes() for folder in ("one", "two")]
    assert tars[0] == tars[1]
    folder = tmp_path / "one"
    classes = (folder / "classnames.txt").read_text().splitlines()
    templates = (folder / "zeroshot_classification_templates.txt").read_text().splitlines()
    assert (folder / "test" / "nshards.txt").read_text() == "1"
    assert len(templates) >= 5
    assert all(template.count("{c}") == 1 for template in templates)
    pictures, labels = read_set(folder)
    counts = collections.Counter(labels)
    assert set(counts) == set(range(len(classes)))
    assert set(counts.values()) == {40 // len(classes)}
    assert {picture.size for picture in pictures} == {(32, 32)}


def test_seen_sets_are_in_domain_and_all_others_are_not() -> None:
    for i in range(400):
        draws = Draws(seeds.generator("domain", i))

        def only(name: str, label: int, kind: str, draws: Draws = draws) -> str:
            (thing,) = evaluation_scene(name, label, draws).objects
            (value,) = thing[kind]
            return value

        shape, colour, digit = i % len(SHAPES), i % len(COLOURS), i % len(DIGITS)
        held_out = HELD_OUT_SHAPE_COLOURS[SHAPES[shape]]
        assert only("scenes-shape", shape, "colour") not in held_out
        assert only("scenes-shape-heldout", shape, "colour") in held_out
        held_out_digit = HELD_OUT_DIGIT_COLOURS[DIGITS[digit]]
        (seen,) = evaluation_scene("scenes-digit", digit, draws).objects
        assert seen["digit"] == (DIGITS[digit],)
        assert not seen["colour"]
        assert only("scenes-digit-heldout", digit, "colour") in held_out_digit
        shown = only("scenes-colour", colour, "shape")
        assert COLOURS[colour] in HELD_OUT_SHAPE_COLOURS[shown]
        assert only("scenes-shape", shape, "shape") == SHAPES[shape]
        assert only("scenes-digit-heldout", digit, "digit") == DIGITS[digit]
        assert only("scenes-colour", colour, "colour") == COLOURS[colour]


def test_handwritten_digits_are_all_of_scikit_learns(tmp_path: Path) -> None:
    settings = make_evaluation_set.Settings()
    make_evaluation_set.run(settings, name="handwritten-digits", evaluation_set=tmp_path / "set")
    pictures, labels = read_set(tmp_path / "set")
    scans = load_digits()
    assert labels == scans.target.tolist()
    for index in (0, 700, 1796):
        # Shrunk again, the ink lies where the scan has it.
        inner = (
            pictures[index].convert("L").crop((13, 13, 51, 51)).resize((8, 8), Image.Resampling.BOX)
        )
        shrunk = 255 - np.asarray(inner, dtype=float).ravel()
        assert np.corrcoef(shrunk, scans.images[index].ravel())[0, 1] > 0.95


def test_an_unknown_set_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(files.UserError, match=r"no set 'scenes-shapes'.*scenes-shape,"):
        make_evaluation_set.run(
            make_evaluation_set.Settings(), name="scenes-shapes", evaluation_set=tmp_path / "set"
        )
    assert not list(tmp_path.iterdir())
