"""Protocols: the prompts are the published ones, and whatever changes them changes their hash."""

import functools
import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from mispair.core.files import UserError, write_json
from mispair.evaluation import protocols
from mispair.evaluation.prompts import Prompts, prompts
from mispair.evaluation.protocols import applies, protocol_files
from mispair.evaluation.set_samples import EvaluationSet, open_set
from mispair.evaluation.sets import canonical
from mispair.towers.loading import made_from_laion
from tests.evaluation.test_sets import write_split

PUBLISHED_COUNTS = {
    "food101": 1, "cifar10": 18, "cifar100": 18, "cub200": 1, "sun397": 2, "cars": 8,
    "aircraft": 2, "dtd": 8, "pets": 1, "caltech101": 34, "flowers": 1, "mnist": 1, "fer2013": 6,
    "stl10": 2, "eurosat": 3, "resisc45": 18, "gtsrb": 3, "kitti_distance": 1, "country211": 5,
    "patch_camelyon": 1, "ucf101_frames": 48, "clevr_counts": 1, "rendered_sst2": 1, "imagenet": 7,
}  # fmt: skip
"""How many templates SLIP's public evaluation has for each set."""

PER_CLASS = {"aircraft", "pets", "caltech101", "flowers"}
"""Sets for which it averages over the classes."""


def clip_benchmarks_templates() -> dict[str, list[str]]:
    """Return the templates of CLIP_benchmark; for many sets these are CLIP's, as SLIP's are."""
    folder = resources.files("clip_benchmark") / "datasets"
    name = "en_zeroshot_classification_templates.json"
    found: dict[str, list[str]] = json.loads((folder / name).read_text())
    return found


def write_set(root: Path, classnames: str = "cat\ndog\nhot dog\n") -> Path:
    write_split(root, "test", ("cls", b"0"), ("cls", b"1"))
    (root / "classnames.txt").write_text(classnames)
    (root / "zeroshot_classification_templates.txt").write_text("a {c}\nthe {c}, a {c}.\n")
    return root


@pytest.fixture
def opened(tmp_path: Path) -> EvaluationSet:
    return open_set(write_set(tmp_path / "wds_pets"))


@pytest.fixture
def custom(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    return folder


def give(folder: Path, **content: str) -> list[Path]:
    """Write files of a custom protocol for the set, and return those that it needs."""
    for ending, text in content.items():
        (folder / f"wds_pets.{ending.replace('_', '.')}").write_text(text)
    return protocol_files(str(folder), "sets/wds_pets")


# Built-in protocols ----------------------------------------------------------------------------


def test_clip_benchmark_takes_what_is_in_the_folder(opened: EvaluationSet) -> None:
    found = prompts(opened, "clip_benchmark")
    expected = [t.format(c=c) for c in opened.classnames for t in opened.templates]
    assert found.texts == expected
    assert found.texts[-1] == "the hot dog, a hot dog."
    assert found.classes.tolist() == [0, 0, 1, 1, 2, 2]
    assert found.classes.dtype == np.int64
    assert (found.metric, found.templates) == ("acc1", ["a {c}", "the {c}, a {c}."])


def test_a_single_prompt_needs_no_templates(opened: EvaluationSet) -> None:
    (opened.directory / "zeroshot_classification_templates.txt").unlink()
    found = prompts(opened, "single-prompt")
    assert found.texts == ["a photo of a cat", "a photo of a dog", "a photo of a hot dog"]
    assert (found.classes.tolist(), found.metric) == ([0, 1, 2], "acc1")
    assert prompts(opened, "laclip").texts[2] == "a photo of a hot dog, a type of pet."
    with pytest.raises(UserError, match=r"zeroshot_classification_templates\.txt: is missing"):
        prompts(opened, "clip_benchmark")


@pytest.mark.parametrize("name", PUBLISHED_COUNTS)
def test_laclips_templates_and_metrics(name: str, opened: EvaluationSet) -> None:
    of_set = replace(opened, directory=Path(f"wds_{name}"))
    found = prompts(of_set, "laclip")
    assert found.templates is not None
    assert len(set(found.templates)) == len(found.templates) == PUBLISHED_COUNTS[name]
    assert all(template.count("{c}") == 1 for template in found.templates)
    assert len(found.texts) == 3 * len(found.templates)
    assert found.metric == ("mean_per_class_recall" if name in PER_CLASS else "acc1")


def test_laclip_knows_these_sets_and_no_others() -> None:
    content = json.loads(protocols.LACLIP_DATA.read_text())
    assert content.keys() == PUBLISHED_COUNTS.keys()
    names = [canonical(n) for main, known in content.items() for n in (main, *known["aliases"])]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "name",
    ["food101", "cifar10", "cifar100", "caltech101", "pets", "stl10", "sun397", "cars", "dtd",
     "flowers", "mnist", "eurosat", "gtsrb", "country211", "fer2013", "renderedsst2",
     "fgvc_aircraft"],
)  # fmt: skip
def test_where_laclip_follows_clip_so_does_clip_benchmark(name: str, opened) -> None:
    found = prompts(replace(opened, directory=Path(name)), "laclip")
    assert found.templates == clip_benchmarks_templates()[name]


def test_laclips_templates_of_imagenet_are_seven_of_clips_eighty(opened: EvaluationSet) -> None:
    found = prompts(replace(opened, directory=Path("wds_imagenet1k")), "laclip")
    eighty = clip_benchmarks_templates()["imagenet1k"]
    assert len(eighty) == 80
    assert set(found.templates or []) < set(eighty)


@pytest.mark.parametrize(
    ("record", "laion"),
    [
        ({"recipe": "laclip-laion", "pretraining": ""}, True),
        ({"recipe": None, "pretraining": "LAION-400M"}, True),
        ({"recipe": None, "pretrained": "laion400m_e32"}, True),
        ({"recipe": "laclip-cc", "pretraining": "CC3M"}, False),
        ({"recipe": None, "pretrained": "laion2b_s34b_b79k"}, False),
    ],
)
def test_the_record_of_a_model_names_laion(record: dict, laion: bool, tmp_path: Path) -> None:
    assert not made_from_laion(tmp_path)
    write_json(tmp_path / "config.json", {"mispair": record})
    assert made_from_laion(tmp_path) == laion


def test_laion_models_have_all_eighty_for_imagenet_alone(opened: EvaluationSet) -> None:
    imagenet = replace(opened, directory=Path("wds_imagenet1k"))
    found = prompts(imagenet, "laclip", laion=True)
    assert found.templates == clip_benchmarks_templates()["imagenet1k"]
    assert found.fingerprint != prompts(imagenet, "laclip").fingerprint
    pets = replace(opened, directory=Path("wds_vtab-pets"))
    assert prompts(pets, "laclip", laion=True).fingerprint == prompts(pets, "laclip").fingerprint


@pytest.mark.parametrize(
    ("folder", "names", "expected"),
    [
        ("wds_fer2013", ["angry", "happy"], ["angry", "happy", "smiling"]),
        ("wds_fer2013_test", ["surprised", "sad"],
         ["surprised", "shocked", "spooked", "sad", "depressed"]),
        ("wds_vtab-clevr_count_all", ["three", "ten"], ["3", "10"]),
        ("wds_mnist", ["three"], ["three"]),
    ],
)  # fmt: skip
def test_laclip_has_slips_class_lists(folder, names, expected, opened) -> None:
    of_set = replace(opened, directory=Path(folder), classnames=names)
    found = prompts(of_set, "laclip")
    last = (found.templates or [])[-1]
    texts = [text for text in found.texts if text in {last.format(c=name) for name in expected}]
    assert texts == [last.format(c=name) for name in expected]
    assert len(found.texts) == len(expected) * len(found.templates or [])
    assert found.classnames == names
    assert sorted(set(found.classes.tolist())) == list(range(len(names)))


@pytest.mark.parametrize(
    ("folder", "name"),
    [("wds_vtab-caltech101", "caltech101"), ("vtab-pets", "pets"), ("Food-101", "food101"),
     ("wds_fgvc_aircraft", "aircraft"), ("wds_vtab-clevr_count_all", "clevr_counts"),
     ("wds_vtab-kitti_closest_vehicle_distance", "kitti_distance"), ("imagenet1k", "imagenet"),
     ("OxfordIIITPet", "pets"), ("stanford_cars", "cars"), ("wds_pets_test", "pets"),
     ("wds_vtab-pets_test", "pets")],
)  # fmt: skip
def test_names_of_folders(folder: str, name: str, opened: EvaluationSet) -> None:
    assert applies("laclip", folder, "classification")
    found, own = (
        prompts(replace(opened, directory=Path(each)), "laclip") for each in (folder, name)
    )
    assert (found.metric, found.templates) == (own.metric, own.templates)


def test_a_set_that_laclip_does_not_know(opened: EvaluationSet) -> None:
    words = "set wds_fod101; its sets are .*'food101'.*a folder with wds_fod101.templates.txt"
    with pytest.raises(UserError, match=words):
        prompts(replace(opened, directory=Path("wds_fod101")), "laclip")


def test_captions_stand_for_their_images(tmp_path: Path) -> None:
    root = tmp_path / "wds_flickr"
    write_split(root, "test", ("txt", b"a cat\nthe cat"), ("txt", b"a dog"), ("txt", b"a cat"))
    (root / "dataset_type.txt").write_text("retrieval")
    found = prompts(open_set(root), "captions")
    assert found.texts == ["a cat", "the cat", "a dog", "a cat"]
    assert found.classes.tolist() == [0, 0, 1, 2]
    assert (found.classnames, found.templates) == ([], None)
    with pytest.raises(UserError, match="protocol laclip is not for retrieval"):
        prompts(open_set(root), "laclip")
    with pytest.raises(UserError, match="protocol captions is not for classification"):
        prompts(open_set(write_set(tmp_path / "pets")), "captions")


# Protocols of the user's -----------------------------------------------------------------------


def test_templates_names_and_metric_of_ones_own(opened: EvaluationSet, custom: Path) -> None:
    files = give(custom, templates_txt="my {c}\n", metric_txt="mean_per_class_recall\n")
    found = prompts(opened, "mine", files)
    assert found.texts == ["my cat", "my dog", "my hot dog"]
    assert found.metric == "mean_per_class_recall"
    files = give(custom, classnames_txt="kitten\npuppy\nsausage\n")
    endings = ("templates.txt", "metric.txt", "classnames.txt")
    assert {*files} == {custom / f"wds_pets.{ending}" for ending in endings}
    found = prompts(opened, "mine", files)
    assert found.texts == ["my kitten", "my puppy", "my sausage"]
    assert found.classnames == ["kitten", "puppy", "sausage"]


def test_class_names_alone_go_with_the_sets_templates(opened: EvaluationSet, custom: Path) -> None:
    files = give(custom, classnames_txt="kitten\npuppy\nsausage\n")
    assert files[1:] == [Path("sets/wds_pets/zeroshot_classification_templates.txt")]
    assert prompts(opened, "mine", files).texts[:2] == ["a kitten", "the kitten, a kitten."]


def test_prompts_of_each_class(opened: EvaluationSet, custom: Path) -> None:
    content = {"hot dog": ["in a bun"], "dog": ["it barks", "a {c}"], "cat": ["it purrs"]}
    found = prompts(opened, "mine", give(custom, json=json.dumps(content)))
    assert found.texts == ["it purrs", "it barks", "a dog", "in a bun"]
    assert found.classes.tolist() == [0, 1, 1, 2]
    assert (found.templates, found.metric) == (None, "acc1")


def test_cupls_own_file(tmp_path: Path, custom: Path) -> None:
    """Its keys are ImageNet's names, of which two are those of two classes each."""
    folder = resources.files("clip_benchmark") / "datasets"
    names = json.loads((folder / "en_classnames.json").read_text())["imagenet1k"]
    cupl = json.loads((folder / "cupl_prompts.json").read_text())["imagenet1k"]
    opened = open_set(write_set(tmp_path / "wds_pets", "\n".join(names)))
    found = prompts(opened, "mine", give(custom, json=json.dumps(cupl)))
    assert found.texts == [text for name in names for text in cupl[name]]
    assert np.bincount(found.classes).tolist() == [len(cupl[name]) for name in names]
    assert len(found.classnames) == 1000


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_names_that_differ_by_unicode_composition_alone(forms, tmp_path, custom) -> None:
    """Of the set, of its file and of its classes; the class has the set's form in prompts."""
    of_set, of_file = (functools.partial(unicodedata.normalize, form) for form in forms)
    opened = open_set(write_set(tmp_path / of_set("wds_forêt"), of_set("Crêpe\nCafé")))
    path = custom / of_file("wds_forêt.json")
    path.write_text(json.dumps({of_file("Crêpe"): ["a {c}"], of_file("Café"): ["b"]}))
    protocols.refuse_stray_files(str(custom), [opened.name])
    files = protocol_files(str(custom), opened.directory, opened.name)
    assert files == [path]
    assert prompts(opened, "mine", files).texts == [of_set("a Crêpe"), "b"]


def test_names_of_sets_in_other_scripts_differ() -> None:
    assert len({*map(canonical, ["数据", "宠物", "Cafe", "Café", "кошки"])}) == 5
    assert canonical("Forêt") == canonical(unicodedata.normalize("NFD", "Forêt"))


GOOD = {"cat": ["x"], "dog": ["y"], "hot dog": ["z"]}


@pytest.mark.parametrize(
    "content",
    [{"imagenet1k": GOOD}, {"wds_pets": GOOD}, {"vtab/pets": GOOD, "imagenet1k": {"a": ["b"]}}],
)
def test_prompts_nested_under_the_names_of_sets(content, opened, custom) -> None:
    assert prompts(opened, "mine", give(custom, json=json.dumps(content))).texts == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"cat": ["x"], "dog": ["y"]}, r"wds_pets\.json: has no prompts for 'hot dog'\."),
        ({**{k: v for k, v in GOOD.items() if k != "hot dog"}, "hot_dog": ["z"]},
         "no prompts for 'hot dog'. Did you mean 'hot_dog'"),
        ({**GOOD, "hotdog": ["z"]},
         "'hotdog' is no class of the set. Did you mean 'hot dog'"),
        ({**GOOD, "dog": []}, "'dog' must have a list of at least one prompt"),
        ({**GOOD, "dog": [" "]}, "'dog' must have a list"),
        ({**GOOD, "dog": "a dog"}, "'dog' must have a list"),
        ({**GOOD, "dog": ["a {} in grass"]}, r"'dog' has {}\. Write {c}"),
        ([["cat"]], "Write {class name"),
        ({"a": GOOD, "b": GOOD}, "for the sets 'a', 'b', and none for wds_pets"),
        ({"pets": GOOD, "wds_pets": GOOD}, "remove all but one"),
        ({**GOOD, "e\u0302": ["x"], "\u00ea": ["x"]}, "given twice"),
    ],
)  # fmt: skip
def test_unfit_prompts_of_classes(content, words, opened, custom) -> None:
    files = give(custom, json=json.dumps(content))
    with pytest.raises(UserError, match=words):
        prompts(opened, "mine", files)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"json": "{'cat': 1}"}, r"wds_pets\.json: is not JSON"),
        ({"json": '{"cat": ["a"], "cat": ["b"]}'}, r"wds_pets\.json: lists 'cat' twice"),
        ({"classnames_txt": "a\nb\n"}, "has 2 names for the 3 classes of wds_pets"),
        ({"classnames_txt": "a\n\nb\n"}, "line 2 is empty"),
        ({"templates_txt": "a photo\n"}, r"wds_pets\.templates\.txt: .*no \{c\}"),
        ({"metric_txt": "accuracy"}, "must hold acc1 or mean_per_class_recall, found 'accuracy'"),
        ({"json": json.dumps(GOOD), "templates_txt": "a {c}"}, "leave one of them out"),
        ({}, r"protocol mine has no files for the set wds_pets: .*wds_pets\.json"),
    ],
)
def test_unfit_files(content, words, opened, custom) -> None:
    with pytest.raises(UserError, match=words):
        prompts(opened, "mine", give(custom, **content))


# Fingerprints ----------------------------------------------------------------------------------


def moved(found: Prompts) -> Prompts:
    """Give the first prompt of the last class to the one before."""
    return replace(found, classes=np.array([0, 0, 1, 1, 1, 2]))


CHANGES: list[Callable[[Prompts], Prompts]] = [
    lambda found: replace(found, protocol="other"),
    lambda found: replace(found, metric="mean_per_class_recall"),
    lambda found: replace(found, classnames=["cat", "dog", "sausage"]),
    lambda found: replace(found, classnames=["catdog", "", "hot dog"]),
    lambda found: replace(found, texts=[*found.texts[:-1], "another"]),
    lambda found: replace(found, texts=found.texts[::-1]), moved]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_each_part_changes_the_fingerprint(change, opened) -> None:
    found = prompts(opened, "clip_benchmark")
    assert change(found).fingerprint != found.fingerprint


def test_nothing_else_changes_the_fingerprint(opened: EvaluationSet, tmp_path: Path) -> None:
    found = prompts(opened, "clip_benchmark").fingerprint
    elsewhere = write_set(tmp_path / "elsewhere" / "another-name")
    write_split(elsewhere, "test", ("cls", b"1"))
    (elsewhere / "classnames.txt").write_text("cat \r\ndog\r\nhot dog")
    assert prompts(open_set(elsewhere), "clip_benchmark").fingerprint == found


# What the workflow asks ------------------------------------------------------------------------


def test_names_of_protocols(tmp_path: Path, custom: Path) -> None:
    assert protocols.protocol_name("laclip") == "laclip"
    assert protocols.protocol_name(str(custom)) == "mine"
    with pytest.raises(UserError, match="'laclib' is neither a protocol .*Did you mean 'laclip'"):
        protocols.protocol_name("laclib")
    with pytest.raises(UserError, match="datacomp was removed. Take clip_benchmark"):
        protocols.protocol_name("sets/datacomp")
    (tmp_path / "my ~ prompts").mkdir()
    assert protocols.protocol_name(str(tmp_path / "my ~ prompts")) == "my-prompts"
    (tmp_path / "laclip").mkdir()
    with pytest.raises(UserError, match="rename it"):
        protocols.protocol_name(str(tmp_path / "laclip"))
