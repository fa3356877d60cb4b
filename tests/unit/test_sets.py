"""Evaluation sets on disk: every missing or unfit piece is named."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
from PIL import Image

from mispair.evaluation.sets import files_of, open_set
from mispair.files import UserError
from tests.unit.test_index import write_tar


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    root = tmp_path / "wds_example"
    (root / "test").mkdir(parents=True)
    stream = io.BytesIO()
    Image.new("RGB", (8, 8)).save(stream, "PNG")
    members = []
    for number in range(4):
        members += [(f"s{number}.png", stream.getvalue()), (f"s{number}.cls", b"%d" % (number % 2))]
    write_tar(root / "test" / "0.tar", members)
    (root / "test" / "nshards.txt").write_text("1\n")
    (root / "classnames.txt").write_text("cat\ndog\n")
    (root / "zeroshot_classification_templates.txt").write_text("a {c}\nthe {c}.\n")
    return root


def test_a_whole_set(directory: Path) -> None:
    opened = open_set(directory)
    assert opened.prompts == [["a cat", "the cat."], ["a dog", "the dog."]]
    assert [label for _, label in opened.samples()] == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "piece",
    ["classnames.txt", "zeroshot_classification_templates.txt", "test/nshards.txt", "test/0.tar"],
)
def test_each_missing_piece_is_named(directory: Path, piece: str) -> None:
    (directory / piece).unlink()
    with pytest.raises(UserError, match=f"missing {piece}"):
        files_of(directory)


def test_all_missing_pieces_come_in_one_message(directory: Path) -> None:
    shutil.rmtree(directory / "test")
    (directory / "classnames.txt").unlink()
    with pytest.raises(UserError, match=r"classnames\.txt, test/nshards\.txt"):
        files_of(directory)


@pytest.mark.parametrize(
    ("piece", "text", "words"),
    [
        ("classnames.txt", "cat\n", "at least 2"),
        ("classnames.txt", "cat\ncat\n", "more than once"),
        ("zeroshot_classification_templates.txt", "a photo\n", r"no \{c\}"),
        ("zeroshot_classification_templates.txt", "\n", "no template"),
        ("test/nshards.txt", "many", "number of shards"),
    ],
)
def test_unfit_pieces(directory: Path, piece: str, text: str, words: str) -> None:
    (directory / piece).write_text(text)
    with pytest.raises(UserError, match=words):
        open_set(directory)


def test_labels_that_do_not_fit_the_class_list(directory: Path) -> None:
    (directory / "test" / "0.tar").unlink()
    write_tar(directory / "test" / "0.tar", [("s0.png", b"x"), ("s0.cls", b"2")])
    with pytest.raises(UserError, match="class '2', but the class list has 2 names"):
        list(open_set(directory).samples())


def test_the_fingerprint_covers_classes_and_templates(directory: Path) -> None:
    before = open_set(directory).fingerprint
    (directory / "classnames.txt").write_text("dog\ncat\n")
    swapped = open_set(directory).fingerprint
    (directory / "zeroshot_classification_templates.txt").write_text("a {c}\n")
    assert len({before, swapped, open_set(directory).fingerprint}) == 3
