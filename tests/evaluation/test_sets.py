"""Evaluation sets on disk: every missing or unfit piece is named."""

import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

from mispair.core.files import UserError
from mispair.evaluation.prompts import prompts
from mispair.evaluation.set_samples import Example, open_images, open_set
from mispair.evaluation.sets import (
    DATASET_TYPE,
    TEMPLATES,
    explain_missing,
    files_of,
    files_of_images,
    files_of_texts,
    kind_of,
    missing_pieces,
    read_classnames,
    read_templates,
)
from mispair.pairs.shards.shards import MAX_TEXT_BYTES
from tests.pairs.test_index import encoded, write_tar

PNG = encoded(Image.new("RGB", (8, 8)), "PNG")


def write_split(directory: Path, split: str, *samples: tuple[str, bytes]) -> None:
    """Write a shard with the same image in each sample, beside one file of the given ending."""
    (directory / split).mkdir(parents=True, exist_ok=True)
    members = []
    for number, (ending, content) in enumerate(samples):
        members += [(f"s{number}.png", PNG), (f"s{number}.{ending}", content)]
    write_tar(directory / split / "0.tar", members)
    (directory / split / "nshards.txt").write_text("1\n")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    root = tmp_path / "wds_example"
    write_split(root, "test", *(("cls", b"%d" % (number % 2)) for number in range(4)))
    write_split(root, "train", ("cls", b"1"))
    (root / "classnames.txt").write_text("cat\ndog\n")
    (root / "zeroshot_classification_templates.txt").write_text("a {c}\nthe {c}.\n")
    return root


@pytest.fixture
def retrieval(tmp_path: Path) -> Path:
    root = tmp_path / "wds_captions"
    write_split(root, "test", ("txt", b"a cat\n\n the cat. \n"), ("txt", "ein Bär".encode()))
    (root / "dataset_type.txt").write_text("Retrieval\n")
    return root


@pytest.mark.parametrize(
    "text", ['["cat", "dog"]', "['cat', 'dog']\n", "[\n  'cat',\n  'dog',\n]\n", "cat\ndog"]
)
def test_lists_of_json_and_python_are_read(tmp_path: Path, text: str) -> None:
    names, templates = tmp_path / "classnames.txt", tmp_path / "templates.txt"
    names.write_text(text)
    assert read_classnames(names) == ["cat", "dog"]
    templates.write_text(text.replace("cat", "a {c}").replace("dog", "the {c}, [so]"))
    assert read_templates(templates) == ["a {c}", "the {c}, [so]"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("classname\ncat\ndog\n", "line 1"), ("Label\ncat\ndog\n", "line 1"),
        ('"cat",\n"dog",\n', "quotation"), ('x = [\n"cat",\n"dog",\n"cow",\n]\n', "quotation"),
        ("cat\tfelis\ndog\tcanis\n", "tab"),
        ("0 red cup\n1 cat\n2 dog", "its number"), ("1: cup\n2: cat\n3: dog", "its number"),
        ("000,cup\n001,cat\n002,dog", "its number"), ("n01440764\nn01443537", "WordNet"),
        ("n01440764 tench\nn01443537 goldfish", "WordNet"), ('"cup"\n"cat"', "quotation marks"),
    ],
)  # fmt: skip
def test_class_lists_with_more_than_names_of_classes(tmp_path, text, reason) -> None:
    path = tmp_path / "classnames.txt"
    path.write_text(text)
    with pytest.raises(UserError, match=rf"classnames\.txt: .*{reason}"):
        read_classnames(path)


def test_other_splits_and_names_of_shards_are_named(tmp_path: Path) -> None:
    write_split(tmp_path, "validation", ("cls", b"0"))
    missing = missing_pieces(tmp_path)
    assert "validation" in explain_missing({str(tmp_path): missing})
    (tmp_path / "validation").rename(tmp_path / "test")
    (tmp_path / "test/0.tar").rename(tmp_path / "test/00000.tar")
    assert "00000.tar" in explain_missing({str(tmp_path): ["test/0.tar"]})


@pytest.mark.parametrize(
    "name", ["test/0.tar.gz", "0.tgz", "val/n01440764/1.JPEG", "data/test-00000-of-00001.parquet"]
)
def test_data_that_are_no_shards_are_named(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(UserError, match=f"It has .*{re.escape(name)}: write .* tar"):
        files_of(tmp_path, templates=True)


def test_a_whole_set(directory: Path) -> None:
    opened = open_set(directory)
    assert (opened.name, opened.kind) == ("wds_example", "classification")
    assert opened.classnames == ["cat", "dog"]
    assert opened.templates == ["a {c}", "the {c}."]
    shard = directory / "test" / "0.tar"
    expected = [Example(shard, f"s{number}", PNG, number % 2) for number in range(4)]
    assert list(opened.samples()) == expected
    assert [example.label for example in open_set(directory, "train").samples()] == [1]


def test_a_retrieval_set_has_no_classes(retrieval: Path) -> None:
    opened = open_set(retrieval)
    assert (opened.kind, opened.classnames) == ("retrieval", [])
    captions = [("a cat", "the cat."), ("ein Bär",)]
    assert [(e.image, e.label, e.captions) for e in opened.samples()] == [
        (PNG, -1, each) for each in captions
    ]
    assert files_of(retrieval)[0] == retrieval / DATASET_TYPE
    assert files_of_texts(retrieval) == files_of(retrieval)


def test_texts_with_a_byte_order_mark(directory: Path, retrieval: Path) -> None:
    write_split(directory, "test", ("cls", b"\xef\xbb\xbf1"))
    assert [example.label for example in open_set(directory).samples()] == [1]
    write_split(retrieval, "test", ("txt", b"\xef\xbb\xbfa cat"))
    assert [example.captions for example in open_set(retrieval).samples()] == [("a cat",)]
    for file in ("test/nshards.txt", DATASET_TYPE):
        (retrieval / file).write_text((retrieval / file).read_text(), encoding="utf-8-sig")
    assert [example.captions for example in open_set(retrieval).samples()] == [("a cat",)]


@pytest.mark.parametrize("text", ['["a cat", "a pet"]', "['a cat', 'a pet']", "a cat\n\na pet\n"])
def test_captions_are_a_list_or_lines(retrieval: Path, text: str) -> None:
    write_split(retrieval, "test", ("txt", text.encode()))
    assert [example.captions for example in open_set(retrieval).samples()] == [("a cat", "a pet")]


def test_shards_follow_one_another(directory: Path) -> None:
    shutil.copy(directory / "train" / "0.tar", directory / "test" / "1.tar")
    (directory / "test" / "nshards.txt").write_text("2")
    opened = open_set(directory)
    assert [example.label for example in opened.samples()] == [0, 1, 0, 1, 1]
    assert opened.count() == 5


def by_ending(member: tuple[str, bytes]) -> str:
    return member[0].rpartition(".")[2]


@pytest.mark.parametrize(
    ("name", "order"),
    [("photo.{}.v2", None), ("v1.{}", None), ("./a.b/IMG {}", None), ("s{}", by_ending),
     ("v1.{}", by_ending)],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["cls", "txt"])
def test_names_with_dots_and_any_order_of_members(name, order, kind, tmp_path) -> None:
    write_split(tmp_path, "test")
    members = []
    for number in range(4):
        key = name.format(number)
        label = str(number % 2).encode()
        members += [(f"{key}.png", PNG), (f"{key}.{kind.upper()}", label), (f"{key}.json", b"{}")]
    write_tar(tmp_path / "test" / "0.tar", sorted(members, key=order) if order else members)
    (tmp_path / "classnames.txt").write_text("cat\ndog\n")
    if kind == "txt":
        (tmp_path / "dataset_type.txt").write_text("retrieval")
    examples = list(open_set(tmp_path).samples())
    assert [e.key for e in examples] == [name.format(n).removeprefix("./") for n in range(4)]
    assert {e.image for e in examples} == {PNG}
    found = [e.captions[0] if kind == "txt" else str(e.label) for e in examples]
    assert found == ["0", "1", "0", "1"]


def test_a_key_that_is_used_again_is_another_sample(tmp_path: Path) -> None:
    write_split(tmp_path, "test")
    twice = [("a.png", PNG), ("a.cls", b"0"), ("b.png", PNG), ("b.cls", b"1")] * 2
    write_tar(tmp_path / "test" / "0.tar", twice)
    (tmp_path / "classnames.txt").write_text("cat\ndog\n")
    assert [each.label for each in open_set(tmp_path).samples()] == [0, 1, 0, 1]


# Missing pieces --------------------------------------------------------------------------------

PIECES = [*("classnames.txt", "zeroshot_classification_templates.txt"),
          *("test/nshards.txt", "test/0.tar", "train/nshards.txt", "train/0.tar")]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_each_missing_piece_is_named(directory: Path, piece: str) -> None:
    assert missing_pieces(directory, ["test", "train"], templates=True) == []
    (directory / piece).unlink()
    assert missing_pieces(directory, ["test", "train"], templates=True) == [piece]
    split = "train" if piece.startswith("train") else "test"
    with pytest.raises(UserError, match=rf"wds_example: missing {piece}\. CLIP_benchmark's"):
        files_of(directory, split, templates=True)


@pytest.mark.parametrize("piece", ["test/nshards.txt", "test/0.tar"])
def test_each_missing_piece_of_a_retrieval_set_is_named(retrieval: Path, piece: str) -> None:
    (retrieval / piece).unlink()
    assert missing_pieces(retrieval) == [piece]


def test_what_nobody_asked_for_is_not_missing(directory: Path, retrieval: Path) -> None:
    shutil.rmtree(directory / "train")
    (directory / TEMPLATES).unlink()
    assert missing_pieces(directory) == []
    assert missing_pieces(retrieval, templates=True) == []
    assert open_set(directory).classnames == ["cat", "dog"]
    with pytest.raises(UserError, match=rf"{TEMPLATES}: is missing"):
        _ = open_set(directory).templates


def test_the_files_of_a_set_and_of_its_texts(directory: Path) -> None:
    shards = [directory / "train" / name for name in ("nshards.txt", "0.tar")]
    assert files_of(directory, "train") == [directory / "classnames.txt", *shards]
    assert files_of(directory, "train", templates=True)[1] == directory / TEMPLATES
    assert files_of_texts(directory) == [directory / "classnames.txt"]


def test_no_folder_at_all(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="neither a generated set nor a folder"):
        files_of(tmp_path / "nowhere")


# Unfit pieces ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("piece", "text", "words"),
    [
        ("classnames.txt", "cat\n", "holds 1 class; at least 2"),
        ("classnames.txt", "cat\n\ndog\n", "line 2 is empty. Classes are numbered by their lines"),
        ("zeroshot_classification_templates.txt", "a photo\n", r"no \{c\}"),
        ("zeroshot_classification_templates.txt", "\n", "no template"),
        ("test/nshards.txt", "many", "number of shards, found 'many'"),
        ("test/nshards.txt", "0", "number of shards"),
        ("test/nshards.txt", "²", "number of shards"),  # a digit to Python, no number
        ("test/nshards.txt", "1" * 5_000, "number of shards"),
        ("dataset_type.txt", "multilabel", "several classes an image"),
        ("dataset_type.txt", "video", "holds 'video'. Sets are for classification"),
        ("classnames.txt", "caf\udce9\ntea\n", "is not UTF-8"),
    ],
)
def test_unfit_pieces(directory: Path, piece: str, text: str, words: str) -> None:
    (directory / piece).write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(UserError, match=words):
        _ = open_set(directory).templates


def test_a_number_of_shards_that_is_far_too_large_ends_soon(directory: Path) -> None:
    (directory / "test" / "nshards.txt").write_text("999999999")
    missing = missing_pieces(directory)
    assert missing[0] == "test/1.tar"
    assert len(missing) == 100


def test_more_shards_than_counted_are_an_error(directory: Path) -> None:
    shutil.copy(directory / "test" / "0.tar", directory / "test" / "1.tar")
    shutil.copy(directory / "test" / "0.tar", directory / "test" / "former.tar")
    with pytest.raises(UserError, match=r"nshards\.txt: has 1, but 1\.tar is in its folder"):
        open_set(directory)


def test_class_names_may_repeat_as_two_of_imagenets_do(directory, caplog) -> None:
    (directory / "classnames.txt").write_text("missile\ncat\nmissile\n\n")
    assert open_set(directory).classnames == ["missile", "cat", "missile"]
    assert "missile is there more than once" in caplog.text


def test_underscores_in_class_names_are_named(directory, caplog) -> None:
    """Prompts have the names as they are: a name of a folder is no English."""
    (directory / "classnames.txt").write_text("golden_retriever\n_\ncat\n")
    assert open_set(directory).classnames == ["golden_retriever", "_", "cat"]
    assert "1 of 3 names have underscores, such as golden_retriever" in caplog.text


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        (("cls", b"2"), "sample s0 has class '2', but the class list has 2 names"),
        (("cls", b"-1"), "has class '-1'"),
        (("cls", "²".encode()), "has class '²'"),
        (("cls", b"1" * 5_000), "has class '1111"),
        (("json", b"{}"), r"sample s0 has no s0\.cls, and its other members, json, are not"),
        (("label.txt", b"1"), r"sample s0 has no s0\.cls"),
        (("class.txt", b"cat"), r"sample s0 has no s0\.cls"),
        (("cls.txt", b"1"), r"sample s0 has no s0\.cls"),
        (("cls", b""), "has class ''"),
        (("npy", b"x"), "sample s0: Sets with several classes an image"),
    ],
)
def test_labels_that_do_not_fit_the_class_list(directory, sample, words) -> None:
    write_split(directory, "test", sample)
    with pytest.raises(UserError, match=words.replace("(", r"\(")):
        list(open_set(directory).samples())


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        (("txt", b" \n"), "sample s0 has no caption"),
        (("txt", b"a" * (MAX_TEXT_BYTES + 1)), "at most 1 MiB"),
        (("cls", b"0"), "sample s0 has no caption. KEY.txt must be next to"),
        (("txt", b"\xff"), "sample s0 has a caption that is not UTF-8"),
    ],
)
def test_captions_that_are_none(retrieval: Path, sample: tuple[str, bytes], words: str) -> None:
    write_split(retrieval, "test", sample)
    with pytest.raises(UserError, match=words):
        list(open_set(retrieval).samples())


def test_a_sample_without_image_and_a_damaged_shard(directory: Path) -> None:
    shard = directory / "test" / "0.tar"
    whole = shard.read_bytes()
    write_tar(shard, [("s0.cls", b"0")])
    with pytest.raises(UserError, match=r"0\.tar: sample s0 has no image"):
        list(open_set(directory).samples())
    assert open_set(directory).count() == 0
    shard.write_bytes(whole[:1600])
    assert open_set(directory).count() in (None, 1)  # what is damaged is told by who reads it
    with pytest.raises(UserError, match=r"0\.tar: is damaged .* Fetch it again"):
        list(open_set(directory).samples())


def test_images_are_opened_without_the_class_list(directory: Path) -> None:
    listed = [example.label for example in open_set(directory).samples()]
    (directory / "classnames.txt").write_text("cat\n")
    opened = open_images(files_of_images(directory, "test"))
    assert (opened.directory, opened.kind) == (directory, "classification")
    assert [example.label for example in opened.samples()] == listed
    assert max(listed) > 0, "a label beyond the list"


def write_questions(root: Path, *samples: tuple[str, str | None]) -> Path:
    """Write a set for the choice of captions: lines of captions, and JSON or none."""
    members = []
    for number, (captions, described) in enumerate(samples):
        members += [(f"s{number}.png", PNG), (f"s{number}.txt", captions.encode())]
        members += [] if described is None else [(f"s{number}.json", described.encode())]
    (root / "test").mkdir(parents=True)
    write_tar(root / "test" / "0.tar", members)
    (root / "test" / "nshards.txt").write_text("1")
    (root / "dataset_type.txt").write_text("image_caption_selection\n")
    return root


def test_a_set_of_questions(tmp_path: Path) -> None:
    about = '{"category": "swap-obj", "pair": 7, "other": []}'
    root = write_questions(
        tmp_path / "set", ("a cat\na dog", about), ("a dog\na cat", about), ("x\ny\nz", None)
    )
    opened = open_set(root)
    assert (opened.kind, opened.classnames) == ("image_caption_selection", [])
    assert [(e.captions, e.category, e.pair) for e in opened.samples()] == [
        (("a cat", "a dog"), "swap-obj", "7"), (("a dog", "a cat"), "swap-obj", "7"),
        (("x", "y", "z"), "", "")]  # fmt: skip
    asked = prompts(opened, "captions")
    assert asked.texts == ["a cat", "a dog", "a dog", "a cat", "x", "y", "z"]
    assert asked.classes.tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert asked.metric == "selection_acc"
    arrays, names = asked.numbered_questions()
    assert (arrays["categories"].tolist(), names) == ([0, 0, -1], ["swap-obj"])
    assert arrays["pairs"].tolist() == [0, 0, -1]
    other = write_questions(tmp_path / "other", ("a cat\na dog", None))
    assert prompts(open_set(other), "captions").fingerprint != asked.fingerprint
    with pytest.raises(UserError, match="captions is for captioned images"):
        prompts(opened, "clip_benchmark")


@pytest.mark.parametrize(
    ("captions", "described", "words"),
    [
        ("a cat", None, "s0 has one caption only"),
        ("a cat\na dog\nA  cat", None, "s0 has its true caption twice"),
        ("a cat\na dog", "{", r"s0\.json is not JSON"),
        ("a cat\na dog", '{"category": ["x"]}', "category and pair as texts"),
        ("a cat\na dog", '{"pair": "' + "x" * 300 + '"}', "at most 200 letters"),
    ],
)
def test_questions_that_cannot_be_asked(tmp_path, captions, described, words) -> None:
    root = write_questions(tmp_path / "set", (captions, described))
    with pytest.raises(UserError, match=words):
        list(open_set(root).samples())


@pytest.mark.parametrize(
    "captions", [["a\nb"], ["a\nb", "a\nb"], ["a\nb", "b\na", "a\nb"], ["a\nb\nc", "c\nb\na"]]
)
def test_pairs_are_two_images_with_captions_in_opposite_order(tmp_path, captions) -> None:
    root = write_questions(tmp_path / "set", *((each, '{"pair": "p1"}') for each in captions))
    with pytest.raises(UserError, match=r"0\.tar: pair p1 \(samples s0.* two images"):
        prompts(open_set(root), "captions")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("", "classification"),
        ("RETRIEVAL ", "retrieval"),
        ("image_caption_selection", "image_caption_selection"),
    ],
)
def test_the_kind_of_a_set(directory: Path, said: str, kind: str) -> None:
    assert kind_of(directory) == "classification"
    (directory / DATASET_TYPE).write_text(said)
    assert kind_of(directory) == kind


@pytest.mark.parametrize(
    "names",
    [["0", "1", "2"], ["0 fingers", "1 fingers", "2 fingers"], ["2 cups", "1 cat", "3 dogs"],
     ["1 dollar", "5 dollars", "10 dollars"], ["'cup", "cat'"]],
)  # fmt: skip
def test_class_names_may_be_or_hold_numbers(tmp_path: Path, names: list[str]) -> None:
    path = tmp_path / "classnames.txt"
    path.write_text("\n".join(names))
    assert read_classnames(path) == names


@pytest.mark.parametrize(
    "form", ["{}", "'{}',", '"{}"', "lambda c: f'{}',", "f'{}'", 'lambda c: f"{}"']
)
def test_templates_as_items_of_a_list_in_python(tmp_path: Path, form: str) -> None:
    path, templates = tmp_path / "templates.txt", ["a photo of a {c}.", "a {c} 'or' so"]
    path.write_text("\n".join(form.replace("{}", template) for template in templates))
    assert read_templates(path) == templates
    path.write_text("'{c}'\na photo of a {c}\n")
    assert read_templates(path)[0] == "'{c}'"  # not all have quotes, so these are meant
