"""Which evaluation sets and protocols a configuration names."""

import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from mispair.command import parsed
from mispair.core.commands import commands
from mispair.core.files import UserError
from mispair.evaluation.dag import Evaluation, generated_files, making


def write_set(folder: Path, *left_out: str, train: bool = False, retrieval: bool = False) -> str:
    pieces = {"test/nshards.txt": "2", "test/0.tar": "", "test/1.tar": ""}
    if retrieval:
        pieces["dataset_type.txt"] = "retrieval"
    else:
        pieces |= {"classnames.txt": "a\nb\n", "zeroshot_classification_templates.txt": "{c}\n"}
    if train:
        pieces |= {"train/nshards.txt": "1", "train/0.tar": ""}
    for name, content in pieces.items():
        if name not in left_out:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content)
    return str(folder)


PREFIXED = ["age:0 to 9", "age:10 to 49", "gender:male", "gender:female"]


@pytest.mark.parametrize(
    ("file", "lines"),
    [
        ("classnames.txt", PREFIXED),
        ("classnames.txt", [line.replace(":", ": ") for line in PREFIXED]),
        ("classnames.txt", [line.replace(":", "：") for line in PREFIXED]),
        ("classnames.txt", ["toxic:kind", "toxic:rude", "no question"]),
        ("classnames.txt", ["Toxic:kind", "TOXIC:rude", "no question"]),
        ("classnames.txt", ["age:young", "gender:male"]),
        ("zeroshot_classification_templates.txt", ["age:a photo of {c}", "a {c}"]),
        ("own/faces.classnames.txt", PREFIXED),
        ("own/faces.templates.txt", ["gender:a {c}"]),
        ("own/faces.json", {name: ["x"] for name in PREFIXED}),
        ("own/faces.json", {"faces": {name: ["x"] for name in PREFIXED}}),
        ("own/faces.json", {"a": ["age:x"], "b": ["age:y"]}),
    ],
)
def test_names_of_questions_are_refused_before_any_job(file, lines, tmp_path) -> None:
    source = write_set(tmp_path / "faces")
    own = tmp_path / "own"
    own.mkdir()
    content = json.dumps(lines) if isinstance(lines, dict) else "\n".join(lines)
    path = tmp_path / file if file.startswith("own") else tmp_path / "faces" / file
    path.write_text(content)
    with pytest.raises(UserError, match=rf"{path.name}.*question") as caught:
        Evaluation([source], ["single-prompt", "clip_benchmark", str(own)])
    assert "evaluation_sets" in str(caught.value)


def test_a_colon_is_no_question(tmp_path: Path) -> None:
    source = write_set(tmp_path / "films")
    (tmp_path / "films/classnames.txt").write_text(
        "Alien\nStar Wars: A New Hope\nRatio 1:2\nRatio 1:3\nhttp://a\nhttp://b\n"
    )
    (tmp_path / "verses").mkdir()
    other = write_set(tmp_path / "verses")
    (tmp_path / "verses/classnames.txt").write_text("John 3:16\nJohn 3:17\n")
    assert len(Evaluation([other], ["clip_benchmark"]).pairs) == 1
    templates = tmp_path / "films/zeroshot_classification_templates.txt"
    templates.write_text("art: {c}\na photo at 10:30 of {c}\n")
    assert len(Evaluation([source], ["clip_benchmark"]).pairs) == 1


def test_every_protocol_is_asked_of_the_sets_that_it_is_for(tmp_path: Path) -> None:
    pets = write_set(tmp_path / "wds_vtab-pets", train=True)
    flickr = write_set(tmp_path / "flickr", retrieval=True)
    custom = tmp_path / "cupl"
    custom.mkdir()
    (custom / "scenes-digit.json").write_text("{}")
    found = Evaluation(
        [pets, flickr, "scenes-digit", "scenes-retrieval"],
        ["clip_benchmark", "laclip", str(custom)],
    )
    assert found.pairs == [("wds_vtab-pets", "clip_benchmark"), ("wds_vtab-pets", "laclip"),
                           ("flickr", "captions"), ("scenes-digit", "clip_benchmark"),
                           ("scenes-digit", "cupl"), ("scenes-retrieval", "captions")]  # fmt: skip
    assert found.echo() == ["protocol laclip: has no prompts for scenes-digit",
                            "protocol cupl: has no prompts for wds_vtab-pets"]  # fmt: skip
    assert found.prompts("t")[1] == "results/evaluation/t/wds_vtab-pets/prompts~laclip.safetensors"
    assert len(found.images("t")) == 4
    # Probes are for classes, and need a training split.
    assert found.images("t", "train") == [
        "results/evaluation/t/wds_vtab-pets/train.safetensors",
        "results/evaluation/t/scenes-digit/train.safetensors",
    ]
    wildcards = SimpleNamespace(evaluation_set="wds_vtab-pets", split="train", protocol="laclip")
    names = [str(Path(path).relative_to(pets)) for path in found.images_of(wildcards)]
    assert names == ["train/nshards.txt", "train/0.tar"]
    assert [Path(path).name for path in found.texts_of(wildcards)] == ["classnames.txt"]
    assert [Path(path).name for path in found.protocol_files(wildcards)] == ["laclip.json"]
    own = SimpleNamespace(evaluation_set="scenes-digit", protocol="cupl")
    (own_file,) = found.protocol_files(own)
    assert own_file.endswith("cupl/scenes-digit.json")


def test_sets_are_named_by_the_user_their_repository_or_a_word(tmp_path: Path) -> None:
    hub = tmp_path / "datasets--org--wds_vtab-pets/snapshots/3f8a1c"
    paths = [write_set(hub), write_set(tmp_path / "more" / "my {set} é")]
    write_set(tmp_path / "more" / "other")
    found = Evaluation([paths[0], f"{tmp_path}/more/*"], ["laclip", "single-prompt"])
    assert [*found.folders] == ["wds_vtab-pets", "my-set-é", "other"]
    assert ("wds_vtab-pets", "laclip") in found.pairs
    named = Evaluation({"cifar10": paths[1], "mine": "scenes-digit"}, ["laclip", "single-prompt"])
    assert ("cifar10", "laclip") in named.pairs
    (tmp_path / "datasets--org--wds_vtab-pets/refs").mkdir()
    by_pattern = Evaluation([f"{tmp_path}/datasets--*"], ["single-prompt"])
    assert [*by_pattern.folders] == ["wds_vtab-pets"]
    wildcards = SimpleNamespace(evaluation_set="mine", split="test")
    assert named.images_of(wildcards)[0].startswith("results/scenes/evaluation/scenes-digit/")
    for sets in ({"a": f"{tmp_path}/more/*"}, [paths[1], write_set(tmp_path / "my [set] é")]):
        with pytest.raises(UserError, match="evaluation_sets: "):
            Evaluation(sets, ["single-prompt"])


def test_all_missing_pieces_of_all_sets_come_in_one_message(tmp_path: Path) -> None:
    one = write_set(tmp_path / "one", "classnames.txt", "test/1.tar")
    other = write_set(tmp_path / "other", "train/0.tar", train=True)
    with pytest.raises(UserError) as refusal:
        Evaluation([one, other], ["clip_benchmark"])
    for words in ("one: missing classnames.txt, test/1.tar", "other: missing train/0.tar"):
        assert words in str(refusal.value)


def test_templates_are_a_piece_of_one_protocol_only(tmp_path: Path) -> None:
    bare = write_set(tmp_path / "bare", "zeroshot_classification_templates.txt")
    assert Evaluation([bare], ["single-prompt"]).pairs == [("bare", "single-prompt")]
    with pytest.raises(UserError, match="missing zeroshot_classification_templates"):
        Evaluation([bare], ["clip_benchmark"])


@pytest.mark.parametrize(
    ("sets", "protocols", "words"),
    [
        (["scenes-digit"], ["laclip"], "none of laclip has prompts for scenes-digit"),
        (["scenes-digit"], ["single-promt"], "Did you mean 'single-prompt'"),
        (["scenes-digits"], ["single-prompt"], "Did you mean 'scenes-digit'"),
    ],
)
def test_what_cannot_be_evaluated(sets: list[str], protocols: list[str], words: str) -> None:
    with pytest.raises(UserError) as refusal:
        Evaluation(sets, protocols)
    assert words in str(refusal.value)


def test_a_file_for_no_set_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for name in ("README.md", "scenes-digit.json", "scenes-digit.metric.txt"):
        (tmp_path / "mine" / name).write_text("{}")
    Evaluation(["scenes-digit"], [str(tmp_path / "mine"), "clip_benchmark"])
    (tmp_path / "mine" / "scenes-digits.templates.txt").write_text("the {c}")
    with pytest.raises(UserError, match=r"belongs to no evaluation set.*scenes-digit\.templates"):
        Evaluation(["scenes-digit"], [str(tmp_path / "mine"), "clip_benchmark"])


def test_generated_sets_are_made_by_one_command_wherever_a_module_puts_them() -> None:
    made = generated_files("scenes-retrieval")
    assert made == [
        f"results/scenes/evaluation/scenes-retrieval/{name}"
        for name in ("dataset_type.txt", "test/nshards.txt", "test/0.tar")
    ]
    made += generated_files("scenes-shape")
    words = making("--seed 7")(None, [f"my runs/{path}" for path in made])
    of_sets = [dict(zip(one[1::2], one[2::2], strict=True)) for one in commands(shlex.split(words))]
    folder = "my runs/results/scenes/evaluation"
    assert of_sets == [
        {"--name": name, "--evaluation-set": f"{folder}/{name}", "--seed": "7"}
        for name in ("scenes-retrieval", "scenes-shape")
    ]


def test_generated_sets_are_encoded_in_one_job_and_those_of_users_in_jobs_of_their_own(tmp_path):
    folder = write_set(tmp_path / "mine", train=True)
    found = Evaluation([folder, "scenes-digit", "scenes-retrieval"], ["clip_benchmark"])
    assert re.fullmatch(found.of_user, "mine")
    assert not re.fullmatch(found.of_user, "scenes-digit")
    assert not re.match(Evaluation(["scenes-digit"], ["clip_benchmark"]).of_user, "")
    of_all = SimpleNamespace(towers="t")
    of_one = SimpleNamespace(towers="t", evaluation_set="mine", split="train")
    digits, pictures = (f"results/scenes/evaluation/scenes-{n}" for n in ("digit", "retrieval"))
    outputs = [path.format(towers="t") for path in found.encoded("test") + found.encoded("train")]
    assert outputs == [
        f"results/evaluation/t/{name}.safetensors"
        for name in ("scenes-digit/test", "scenes-retrieval/test", "scenes-digit/train")
    ]
    read = found.images_of(of_all)
    assert {Path(path).parts[3] for path in read} == {"scenes-digit", "scenes-retrieval"}
    input = SimpleNamespace(evaluation_set=[f"my/{path}" for path in read], towers=["w"])
    words = found.encoding_images("--precision fp32")(of_all, input, outputs, 3)
    encoded = [parsed("encode_evaluation", one[1:])[1] for one in commands(shlex.split(words))]
    assert [str(one["evaluation_features"]) for one in encoded] == outputs
    assert [one["split"] for one in encoded] == ["test", "test", "train"]
    assert {one["workers"] for one in encoded} == {2}
    read_by = [{str(path.parent) for path in one["evaluation_set"]} for one in encoded]
    assert read_by == [
        {f"my/{digits}/test"},
        {f"my/{pictures}", f"my/{pictures}/test"},  # what kind of set it is
        {f"my/{digits}/train"},
    ]
    assert found.images_of(of_one) == [
        f"{folder}/train/{name}" for name in ("nshards.txt", "0.tar")
    ]

    texts, protocols = found.texts_of(of_all), found.protocol_files(of_all)
    input = SimpleNamespace(evaluation_set=texts, protocol=protocols, towers=["w"])
    prompts = [path.format(towers="t") for path in found.encoded_prompts()]
    words = found.encoding_prompts("--precision fp32")(of_all, input, prompts)
    encoded = [parsed("encode_prompts", one[1:])[1] for one in commands(shlex.split(words))]
    assert [(one["name"], one["protocol"], str(one["prompts"])) for one in encoded] == [
        ("scenes-digit", "clip_benchmark", prompts[0]),
        ("scenes-retrieval", "captions", prompts[1]),
    ]
    assert {str(path.parents[1]) for path in encoded[1]["evaluation_set"]} <= {
        pictures, str(Path(pictures).parent)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sources", "names"),
    [
        (["sets/*"], ["a", "b"]),
        (["sets/{b,a}"], ["b", "a"]),
        (["s*/{a..a}"], "nor"),
        (["sets/{a,c}"], r"no folder .*sets/c\)"),
        (["none/*"], "no folder"),
        (["sets/*", "sets/a"], "sets/a is named twice"),
        (["sets"], r"name.* by a glob: sets/\*"),
        (["sets/a/test"], "name the folder that it is in"),
        (["org/pets"], "hf download org/pets --repo-type dataset"),
        (["https://hub.example/datasets/org/pets"], "hf download org/pets --repo-type dataset"),
    ],
)
def test_patterns_and_addresses_of_sets(sources, names, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        write_set(Path("sets") / name)
    if isinstance(names, list):
        assert [*Evaluation(sources, ["clip_benchmark"]).folders] == names
        return
    with pytest.raises(UserError, match=names):
        Evaluation(sources, ["clip_benchmark"])
