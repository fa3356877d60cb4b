"""Tests of the generated evaluation sets: layout, classes, captions, what is out of domain."""

import collections
import gc
import io
import re
import tarfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from clip_benchmark.datasets.builder import build_dataset  # type: ignore[import-untyped]
from PIL import Image
from sklearn.datasets import load_digits

from mispair.core import files, seeds
from mispair.evaluation import classification
from mispair.evaluation.set_samples import open_set
from mispair.evaluation.sets import files_of, kind_of
from mispair.pairs.corruption.draws import Draws
from mispair.pairs.scenes.compositional import CATEGORIES, ENDS, question
from mispair.pairs.scenes.evaluation_sets import (
    EVALUATION_SETS,
    captioned_pictures,
    evaluation_scene,
    files_of_generated,
)
from mispair.pairs.scenes.scene_captions import (
    COLOURS,
    DIGITS,
    HELD_OUT_DIGIT_COLOURS,
    HELD_OUT_SHAPE_COLOURS,
    SHAPES,
    VOCABULARY,
    Part,
    find_mentions,
    read_caption,
)
from mispair.pairs.scenes.scenes import Scene
from mispair.pairs.steps import make_evaluation_set
from mispair.towers.dag import SHIPPED
from mispair.towers.loading import load_towers

CLASSIFIED = [name for name, chosen in EVALUATION_SETS.items() if chosen.kind == "classification"]
SCENE_SETS = [name for name in CLASSIFIED if name.startswith("scenes")]


def make(folder: Path, name: str, **settings: int) -> Path:
    chosen = make_evaluation_set.Settings(**{"image_size": 32, **settings})
    make_evaluation_set.run(chosen, name=name, evaluation_set=folder / name)
    return folder / name


def members(shard: Path) -> dict[str, bytes]:
    with tarfile.open(shard) as tar:
        return {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]


def read_set(folder: Path, split: str = "test") -> tuple[list[Image.Image], list[int]]:
    content = members(folder / split / "0.tar")
    keys = sorted({name.split(".")[0] for name in content})
    assert list(content) == [f"{key}.{end}" for key in keys for end in ("cls", "png")]
    assert keys == [f"s{i:07d}" for i in range(len(keys))]
    pictures: list[Image.Image] = [Image.open(io.BytesIO(content[f"{key}.png"])) for key in keys]
    return pictures, [int(content[f"{key}.cls"]) for key in keys]


def their_reading(folder: Path, split: str, task: str) -> tuple[Any, list[Any]]:
    """Read a set with CLIP_benchmark's own loader: the data set, and its samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves shards open
        how = {"root": str(folder), "split": split, "transform": np.asarray, "task": task}
        dataset = build_dataset("wds/local", **how)
        samples = list(dataset)
        gc.collect()
    return dataset, samples


@pytest.mark.parametrize("name", SCENE_SETS)
def test_sets_of_scenes_have_the_layout_of_clip_benchmark(name, tmp_path):
    folder = make(tmp_path / "one", name, images=40, train_images=30)
    again = make(tmp_path / "two", name, images=40, train_images=30)
    for split in EVALUATION_SETS[name].splits:
        shards = [which / split / "0.tar" for which in (folder, again)]
        assert shards[0].read_bytes() == shards[1].read_bytes()
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
    if name in ("scenes-shape", "scenes-digit"):
        others, labels = read_set(folder, "train")
        assert labels == [number % len(classes) for number in range(30)]
        assert len({picture.tobytes() for picture in [*pictures, *others]}) == 70
    else:
        assert not (folder / "train").exists()


def test_more_pictures_leave_the_others_as_they_are(tmp_path):
    for name, settings in (
        ("scenes-shape", {"images": 10, "train_images": 10}),
        ("scenes-retrieval", {"retrieval_images": 10}),
        ("scenes-compositional", {"questions": 12}),
    ):
        few = make(tmp_path / "few", name, **settings)
        many = make(tmp_path / "many", name, **{key: 2 * n for key, n in settings.items()})
        for shard in few.glob("*/0.tar"):
            found = members(many / shard.relative_to(few))
            assert members(shard).items() <= found.items()
            assert len(found) == 2 * len(members(shard))


@pytest.mark.parametrize("name", EVALUATION_SETS)
def test_what_is_said_to_be_written_is_written(name, tmp_path):
    folder = make(tmp_path, name, images=10, train_images=10, retrieval_images=10, questions=12)
    written = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    told = files_of_generated(name)
    assert (set(told), len(set(told))) == (written, len(told))
    chosen = EVALUATION_SETS[name]
    assert kind_of(folder) == chosen.kind
    for split in chosen.splits:
        needed = files_of(folder, split, templates=True)
        found = [str(path.relative_to(folder)) for path in needed]
        assert found == files_of_generated(name, [split])


PHRASES = re.compile(
    rf"\b({'|'.join(COLOURS)}) (?:number )?({'|'.join((*SHAPES, *DIGITS))})\b"
    r"(?: (on the left|on the right|at the top|at the bottom))?"
)
WHERE = {"on the left": "left", "on the right": "right", "at the top": "top",
         "at the bottom": "bottom"}  # fmt: skip


def is_true(sentence: str, scene: Scene) -> bool:
    """Tell whether a sentence is true of a scene, by looking at each thing that it names."""
    things = [{value for values in thing.values() for value in values} for thing in scene.objects]
    ends = ENDS[scene.whole["arrangement"][0]] if len(things) == 2 else ()
    for colour, noun, where in PHRASES.findall(sentence):
        owners = [number for number, thing in enumerate(things) if {colour, noun} <= thing]
        if not owners:
            return False
        at = ends[owners[0]] if ends else (scene.whole.get("position") or ("",))[0]
        if where and WHERE[where] != at:
            return False
    everything = set(scene.features)
    return set(read_caption(sentence)) <= everything | {f"position:{end}" for end in ends}


@pytest.mark.parametrize("category", CATEGORIES)
def test_one_sentence_is_true_and_the_other_is_not(category):
    sentences = collections.Counter[str]()
    for number in range(150):
        asked = question(category, Draws(seeds.generator(category, number)))
        assert is_true(asked.true, asked.scene), asked
        assert not is_true(asked.false, asked.scene), asked
        for sentence in (asked.true, asked.false):
            for colour, noun, _ in PHRASES.findall(sentence):
                held_out = {**HELD_OUT_SHAPE_COLOURS, **HELD_OUT_DIGIT_COLOURS}[noun]
                assert colour not in held_out, "a pair of words that no caption of the corpus has"
        words = [sorted(re.sub(r"\ban\b", "a", sentence).split())
                 for sentence in (asked.true, asked.false)]  # fmt: skip
        assert (words[0] == words[1]) == category.startswith("swap")
        sentences.update([asked.true, asked.false])
    assert len(sentences) > 60


def test_words_do_not_tell_which_sentence_is_true():
    """Where words are replaced or exchanged, each word is as often in true as in false ones."""
    counts = {True: collections.Counter[str](), False: collections.Counter[str]()}
    categories = [name for name in CATEGORIES if not name.startswith("add")]
    for number in range(4000):
        category = categories[number % len(categories)]
        asked = question(category, Draws(seeds.generator("words", number)))
        counts[True].update(asked.true.split())
        counts[False].update(asked.false.split())
    for word, often in counts[True].items():
        apart = often - counts[False][word]
        assert abs(apart) < 4.5 * (often + counts[False][word]) ** 0.5, word


def test_a_set_of_questions(tmp_path):
    folder = make(tmp_path, "scenes-compositional", questions=24)
    examples = list(open_set(folder).samples())
    assert [example.category for example in examples] == 2 * list(CATEGORIES)
    assert all(len(set(example.captions)) == 2 for example in examples)


@pytest.mark.parametrize("name", CLASSIFIED)
def test_clip_benchmarks_loader_reads_the_same(name, tmp_path):
    folder = make(tmp_path, name, images=20, train_images=20)
    for split in EVALUATION_SETS[name].splits:
        opened = open_set(folder, split)
        theirs, samples = their_reading(folder, split, "zeroshot_classification")
        assert theirs.classes == opened.classnames
        assert theirs.templates == opened.templates
        ours = list(opened.samples())
        assert len(samples) == len(ours) == (1797 if name == "handwritten-digits" else 20)
        for (pixels, label), example in list(zip(samples, ours, strict=True))[:20]:
            assert label == example.label
            assert (pixels == np.asarray(Image.open(io.BytesIO(example.image)))).all()


def test_a_retrieval_set(tmp_path):
    folder = make(tmp_path, "scenes-retrieval", retrieval_images=60)
    _, theirs = their_reading(folder, "test", "zeroshot_retrieval")
    ours = list(open_set(folder).samples())
    assert len(theirs) == len(ours) == 60
    for (pixels, captions), example in zip(theirs, ours, strict=True):
        assert captions == list(example.captions)
        assert (pixels == np.asarray(Image.open(io.BytesIO(example.image)))).all()
        assert len(set(captions)) == 5
        # All sentences of a picture say the same of it.
        (features,) = {tuple(read_caption(caption)) for caption in captions}
        assert {"count", "shape", "colour"} <= {feature.split(":")[0] for feature in features}
    everything = [caption for _, captions in theirs for caption in captions]
    assert len(set(everything)) == 300


def test_no_two_pictures_of_a_retrieval_set_fit_one_description(monkeypatch):
    """Of few possible scenes each is drawn once, in whatever order its objects are named."""

    def few(draws: Draws, number: int) -> Scene:
        things: list[Part] = [
            {"shape": (draws.choose(("ring", "star")),), "colour": ("red",)} for _ in range(number)
        ]
        return Scene(things, {"count": ({2: "pair", 3: "trio"}[number],), "arrangement": ("row",)})

    monkeypatch.setattr("mispair.pairs.scenes.evaluation_sets.several_objects", few)
    pictures = captioned_pictures("scenes-retrieval", images=7, size=16, seed=0)
    found = set()
    for _, captions in pictures:
        words = [find_mentions(caption) for caption in captions]
        (content,) = {tuple(sorted(feature for *_, feature in said)) for said in words}
        found.add(content)
    assert len(found) == 7  # three pairs and four trios


def test_seen_sets_are_in_domain_and_all_others_are_not():
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


def test_textured_shapes_have_a_texture_in_a_seen_colour_on_every_background():
    seen = collections.Counter[str]()
    for i in range(1600):
        label = i % len(SHAPES)
        scene = evaluation_scene("scenes-shape-textured", label, Draws(seeds.generator("t", i)))
        (thing,) = scene.objects
        assert thing["shape"] == (SHAPES[label],)
        (colour,), (texture,) = thing["colour"], thing["texture"]
        assert colour not in HELD_OUT_SHAPE_COLOURS[SHAPES[label]]
        assert thing.keys() == {"shape", "colour", "texture"}  # of medium size, without a digit
        assert scene.whole.keys() == {"background"}  # in the middle, without frame and shadow
        seen.update([texture, *(scene.whole["background"] or ("beige",))])
    textures, backgrounds = VOCABULARY["texture"], ["beige", *VOCABULARY["background"]]
    assert set(seen) == {*textures, *backgrounds}
    for values in (textures, backgrounds):
        often = 1600 / len(values)
        assert all(abs(seen[value] - often) < 4 * often**0.5 for value in values)


def test_textured_shapes_leave_the_shipped_towers_room_both_ways(tmp_path):
    """A set at the ceiling, or at chance, shows neither a fall nor a repair."""
    towers = load_towers(SHIPPED["shipped"])
    folder = make(tmp_path, "scenes-shape-textured", images=400, image_size=64)
    opened = open_set(folder)
    examples = list(opened.samples())
    pixels = [towers.preprocess(example.decode()) for example in examples]
    images = towers.image_features(torch.stack(pixels)).numpy()
    texts = [each.replace("{c}", name) for name in opened.classnames for each in opened.templates]
    numbers = np.repeat(np.arange(len(opened.classnames)), len(opened.templates))
    prompts = towers.text_features(towers.tokenizer(texts)).numpy()
    image, text = towers.image_projection.numpy(), towers.text_projection.numpy()
    classes = classification.classifier(prompts, numbers, text)
    labels = np.array([example.label for example in examples])
    answers, _ = classification.classify(classification.embed(images, image), classes, labels)
    accuracy = np.mean(answers == labels)
    assert 0.5 < accuracy < 0.8


def test_handwritten_digits_are_all_of_scikit_learns(tmp_path):
    folder = make(tmp_path, "handwritten-digits", image_size=64)
    assert not (folder / "train").exists()
    pictures, labels = read_set(folder)
    scans = load_digits()
    assert labels == scans.target.tolist()
    for index in (0, 700, 1796):
        # Shrunk again, the ink lies where the scan has it.
        inner = pictures[index].convert("L").crop((13, 13, 51, 51))
        inner = inner.resize((8, 8), Image.Resampling.BOX)
        shrunk = 255 - np.asarray(inner, dtype=float).ravel()
        assert np.corrcoef(shrunk, scans.images[index].ravel())[0, 1] > 0.95


def test_an_unknown_set_is_refused_by_name(tmp_path):
    with pytest.raises(files.UserError, match=r"no set 'scenes-shapes'.*scenes-shape,"):
        make_evaluation_set.run(
            make_evaluation_set.Settings(), name="scenes-shapes", evaluation_set=tmp_path / "set"
        )
    assert not list(tmp_path.iterdir())
