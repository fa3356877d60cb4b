"""Converters of public compositional sets: tiny sets in each layout, read back; every fault."""

import collections
import dataclasses
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import webdataset
from PIL import Image

from mispair.cli import main
from mispair.core.files import UserError
from mispair.evaluation.prompts import prompts
from mispair.evaluation.public_sets import SetEntry, checked
from mispair.evaluation.set_samples import open_set
from tests.evaluation.test_clip_benchmark import leaving_shards_open


def picture(seed: int, size: tuple[int, int] = (40, 30)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), np.uint8)
    return Image.fromarray(pixels)


def encoded(image: Image.Image, form: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form)
    return buffer.getvalue()


CATEGORIES = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj",
              "add_att")  # fmt: skip


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(3):
        picture(number).save(folder / f"{number}.jpg")
    return folder


@pytest.fixture
def sugarcrepe(tmp_path: Path) -> Path:
    folder = tmp_path / "annotations"
    folder.mkdir()
    for place, name in enumerate(CATEGORIES):
        items = {
            str(10 * k): {"filename": f"{(place + k) % 3}.jpg", "caption": f"{name} {k} is\ntrue",
                          "negative_caption": f"{name} {k} is not"}
            for k in range(2)
        }  # fmt: skip
        (folder / f"{name}.json").write_text(json.dumps(items))
    return folder


def visual_genome(folder: Path, **changes: Any) -> Path:
    items = [
        {"image_path": f"{k % 3}.jpg", "bbox_x": 5, "bbox_y": 4, "bbox_w": 20, "bbox_h": 10 + k,
         "relation_name": ("on", "under")[k % 2], "attributes": ["red", "big"] if k else ["a", "b"],
         "true_caption": f"the cat is on {k}", "false_caption": f"{k} is on the cat"} | changes
        for k in range(30)
    ]  # fmt: skip
    for k, item in enumerate(items):
        item["bbox_h"] = item["bbox_h"] if "bbox_h" in changes else 5 + k % 15
    path = folder / "visual_genome.json"
    path.write_text(json.dumps(items))
    return path


def convert(name: str, annotations: Path, images: Path | None, to: Path) -> int:
    given = [] if images is None else ["--images", str(images)]
    return main(["convert", name, "--annotations", str(annotations), *given, "--to", str(to)])


def test_sugarcrepe(sugarcrepe: Path, images: Path, tmp_path: Path, capsys) -> None:
    to = tmp_path / "sets" / "sugarcrepe"
    assert convert("sugarcrepe", sugarcrepe, images, to) == 0
    examples = list(open_set(to).samples())
    assert [example.category for example in examples[::2]] == [
        name.replace("_", "-") for name in CATEGORIES
    ]
    assert examples[0].captions == ("replace_obj 0 is true", "replace_obj 0 is not")
    assert examples[1].image == (images / "1.jpg").read_bytes()  # as it was found
    said = capsys.readouterr().out
    assert "14 questions" in said
    assert said.count(": 2\n") == 7
    # What webdataset reads, as CLIP_benchmark does.
    url = str(to / "test" / "{0..0}.tar")
    with leaving_shards_open():
        read = list(webdataset.WebDataset(url, shardshuffle=False).decode("pil"))
    assert [sample["txt"].splitlines()[0] for sample in read] == [e.captions[0] for e in examples]
    assert {sample["json"]["category"] for sample in read} == {e.category for e in examples}
    twice = tmp_path / "again"
    assert convert("sugarcrepe", sugarcrepe, images, twice) == 0
    shards = [folder / "test" / "0.tar" for folder in (to, twice)]
    assert shards[0].read_bytes() == shards[1].read_bytes()


@pytest.mark.parametrize("name", ["aro-relation", "aro-attribution"])
def test_aro_shows_the_box(name: str, images: Path, tmp_path: Path) -> None:
    to = tmp_path / "aro"
    assert convert(name, visual_genome(tmp_path), images, to) == 0
    examples = list(open_set(to).samples())
    with Image.open(images / "1.jpg") as opened:
        expected = opened.convert("RGB").crop((5, 4, 25, 10))
    assert np.array_equal(np.asarray(examples[1].decode()), np.asarray(expected))
    assert examples[1].captions == ("the cat is on 1", "1 is on the cat")
    often = collections.Counter(example.category for example in examples)
    # A pair of attributes that is asked for less than 25 times is in no mean.
    assert often == ({"on": 15, "under": 15} if "rel" in name else {"red_big": 29, "": 1})


def winoground(folder: Path, lines: bool) -> Path:
    rows = [
        {"id": k, "caption_0": f"{k} on grass", "caption_1": f"grass on {k}",
         "collapsed_tag": "Relation", "image_0": f"{k}0", "image_1": f"{k}1"} for k in range(3)
    ]  # fmt: skip
    if lines:
        path = folder / "examples.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        for row in rows:
            for side in (0, 1):
                picture(int(row[f"image_{side}"])).save(
                    folder / "images" / f"{row[f'image_{side}']}.png"
                )
        return path
    for row in rows:
        for side in (0, 1):
            image = encoded(picture(int(row[f"image_{side}"])))
            row[f"image_{side}"] = {"bytes": image, "path": None}
    path = folder / "winoground.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("lines", [True, False])
def test_winoground(lines: bool, images: Path, tmp_path: Path) -> None:
    to = tmp_path / "winoground"
    assert convert("winoground", winoground(tmp_path, lines), images if lines else None, to) == 0
    examples = list(open_set(to).samples())
    assert [example.pair for example in examples] == ["0", "0", "1", "1", "2", "2"]
    assert [example.captions[0] for example in examples[:2]] == ["0 on grass", "grass on 0"]
    assert np.array_equal(np.asarray(examples[3].decode()), np.asarray(picture(11)))
    arrays, names = prompts(open_set(to), "captions").numbered_questions()
    assert (arrays["pairs"].tolist(), names) == ([0, 0, 1, 1, 2, 2], ["Relation"])


def test_a_question_in_two_categories_is_kept_once_in_each(images, tmp_path, caplog) -> None:
    shared = SetEntry("a", images / "0.jpg", ("a cup", "a plate"), "replace-obj")
    twin = dataclasses.replace(shared, source="b", category="replace-att")
    other = dataclasses.replace(shared, source="c", captions=("a cup", "a spoon"))
    assert checked([shared, twin, other]) == [shared, twin, other]
    assert "category: 1, such as a and b" in caplog.text
    third = dataclasses.replace(shared, source="d", category="replace-rel")
    assert checked([third, shared, other, twin]) == [third, shared, other, twin]
    assert "category: 1, such as d and a and b" in caplog.text
    with pytest.raises(UserError, match="c: is the same question on the same picture as b"):
        checked([shared, twin, dataclasses.replace(twin, source="c")])


def refused(*arguments: Any, to: Path, capsys: Any) -> str:
    assert convert(*arguments, to) == 2
    assert not to.exists()
    assert not list(to.parent.glob(f".{to.name}*"))
    said: str = capsys.readouterr().err
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ('{"1": {"filename": "0.jpg", "caption": "a"}}', r"add_obj\.json: 1: has no usable 'neg"),
        ('{"1": {"filename": "0.jpg", "caption": "a", "negative_caption": " "}}',
         "1: has 1 caption"),
        ('{"1": {"filename": "0.jpg", "caption": "A b", "negative_caption": "a  B"}}',
         "1: a false caption is the true one"),
        ('{"1": {"filename": "9.jpg", "caption": "a", "negative_caption": "b"}}',
         r"1 of 4 pictures are missing: .*9\.jpg"),
        ('{"1": {"filename": "../x.jpg", "caption": "a", "negative_caption": "b"}}',
         r"'\.\./x\.jpg' is outside"),
        ('{"1": {"filename": "0.jpg", "caption": "a", "negative_caption": "b"},'
         ' "2": {"filename": "0.jpg", "caption": "a", "negative_caption": "b"}}',
         r"add_obj\.json: 2: is the same question on the same picture as .*add_obj\.json: 1"),
        ('{"1": {}, "1": {}}', r"add_obj\.json: lists '1' twice"),
        ('{"1": NaN}', r"add_obj\.json: is not JSON .NaN"),
        ("[]", "must hold"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        (None, r"has no add_obj\.json"),
    ],
)  # fmt: skip
def test_faults_of_sugarcrepe(changed, words, sugarcrepe, images, tmp_path, capsys) -> None:
    path = sugarcrepe / "add_obj.json"
    path.unlink() if changed is None else path.write_text(changed)
    said = refused("sugarcrepe", sugarcrepe, images, to=tmp_path / "set", capsys=capsys)
    assert re.search(words, said), said


def test_faults_of_pictures(sugarcrepe: Path, images: Path, tmp_path: Path, capsys) -> None:
    (images / "1.jpg").write_bytes(b"no picture")
    said = refused("sugarcrepe", sugarcrepe, images, to=tmp_path / "set", capsys=capsys)
    assert re.search(r"replace_obj\.json: 10: .*1\.jpg cannot be decoded", said)
    for box in ({"bbox_w": 400}, {"bbox_x": -1}, {"bbox_h": 0}):
        path = visual_genome(tmp_path, **box)
        picture(1).save(images / "1.jpg")
        said = refused("aro-relation", path, images, to=tmp_path / "set", capsys=capsys)
        assert "is not within the picture of 40 x 30 pixels" in said


def test_faults_of_tables_and_targets(sugarcrepe, images, tmp_path, capsys) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"id": [1], "caption_0": ["a"]}), path)
    said = refused("winoground", path, None, to=tmp_path / "set", capsys=capsys)
    assert "has no image_0, image_1, caption_1" in said
    path.write_bytes(b"PAR1")
    assert "Parquet" in refused("winoground", path, None, to=tmp_path / "set", capsys=capsys)
    assert "--images" in refused("sugarcrepe", sugarcrepe, None, to=tmp_path / "set", capsys=capsys)
    (tmp_path / "there").mkdir()
    assert convert("sugarcrepe", sugarcrepe, images, tmp_path / "there") == 2
    assert "exists already" in capsys.readouterr().err
