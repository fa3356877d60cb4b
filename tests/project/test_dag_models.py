"""Which models a configuration names."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from mispair.core.files import UserError
from mispair.dag import Dag
from mispair.towers.checkpoints.model_spec import ModelSpec


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    (tmp_path / "weights.pt").touch()
    return str(tmp_path / "weights.pt")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "clip").mkdir()
    (tmp_path / "clip" / "open_clip_model.safetensors").touch()
    (tmp_path / "clip" / "open_clip_config.json").write_text('{"model_cfg": {"embed_dim": 512}}')
    return str(tmp_path / "clip")


def compare(*models: dict) -> Dag:
    return Dag({"studies": ["laclip"], "models": list(models)}, "x")


def test_models_are_compared_as_they_are(checkpoint: str, folder: str) -> None:
    dag = compare(
        {"name": "a", "recipe": "laclip-cc", "checkpoint": checkpoint, "method": "CLIP"},
        {"name": "b", "folder": folder},
        {"name": "c", "model": "ViT-B-32", "pretrained": "laion2b_s34b_b79k"},
    )
    assert dag.checkpoints() == [
        f"results/arms/checkpoints/{name}/untouched/zeroshot.json" for name in "abc"
    ]
    assert dag.models.files("a")[0] == "results/checkpoints/a/open_clip_config.json"
    assert [Path(path).name for path in dag.models.files("b")] == [
        "open_clip_config.json", "open_clip_model.safetensors",
    ]  # fmt: skip
    assert dag.models.origins() == [f"results/checkpoints/{name}/config.json" for name in "ac"]
    assert dag.models.checkpoint(SimpleNamespace(model="a")) == [checkpoint]
    assert dag.models.checkpoint(SimpleNamespace(model="c")) == []
    # No other study is asked for, and none of its files.
    assert dag.index() == dag.measured("purity") == dag.simulations() == []


def test_labels_do_not_convert_a_model_again(checkpoint: str) -> None:
    model = {"name": "a", "recipe": "laclip-cc", "checkpoint": checkpoint}
    plain, labelled = (
        compare(model | labels).models.spec(SimpleNamespace(model="a"))
        for labels in ({}, {"pretraining": "CC12M", "method": "LaCLIP"})
    )
    assert plain == labelled
    (word,) = shlex.split(plain)
    assert ModelSpec.model_validate_json(word) == ModelSpec.model_validate(model)


def test_a_model_can_be_fine_tuned_too(checkpoint: str, folder: str) -> None:
    spec = {"name": "mine", "recipe": "laclip-cc", "checkpoint": checkpoint}
    dag = Dag({"studies": ["image_text"], "towers": spec}, "x")
    assert dag.tower_files(SimpleNamespace(towers="mine")) == dag.models.files("mine")
    assert all(path.startswith("results/arms/scenes/mine/") for path in dag.measured("zeroshot"))
    dag = Dag({"studies": ["image_text"], "towers": {"name": "mine", "folder": folder}}, "x")
    assert Path(dag.models.files("mine")[0]).name == "open_clip_config.json"


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ([{"name": "a", "recipe": "laclip-cc", "checkpoint": "gone.pt"}], "/gone.pt."),
        ([{"name": "a", "folder": "gone"}], "models[0].folder: 'gone' is neither"),
        ([{"name": "a", "model": "ViT-B-32", "pretrained": "x"}] * 2, "two models are called 'a'"),
        ([{"name": "a", "recipe": "laclip"}], "laclip"),
        ([{"name": "a"}], "does not say what it is"),
        ([], "models: the list is empty"),
    ],
)
def test_what_is_missing_is_named_before_any_job(models: list[dict], words: str) -> None:
    with pytest.raises(UserError) as refusal:
        compare(*models)
    assert words in str(refusal.value)


def test_pruning_keeps_no_more_neurons_than_there_are(folder: str) -> None:
    Dag({"towers": folder, "prune_neurons": {"ks": ["500-512:4"]}}, "x")
    with pytest.raises(UserError, match="600 is more than the 512 neurons"):
        Dag({"towers": folder, "prune_neurons": {"ks": [600]}}, "x")
    with pytest.raises(UserError, match="600 is more than the 512 neurons"):
        Dag({"towers": folder, "export_pruned": {"ks": [64, 600]}}, "x")
    Path(folder, "open_clip_config.json").write_text(json.dumps({"model_cfg": {}}))
    with pytest.raises(UserError, match=r"names no model_cfg\.embed_dim"):
        Dag({"towers": folder}, "x")


@pytest.mark.parametrize("neurons", [64, 128, 512])
def test_pruning_follows_the_width_of_the_model(folder: str, neurons: int) -> None:
    content = json.dumps({"model_cfg": {"embed_dim": neurons}})
    Path(folder, "open_clip_config.json").write_text(content)
    dag = Dag({"towers": folder}, "x")
    assert "--ks none" in dag.flags("prune_neurons")
    assert [path.rpartition("~")[2] for path in dag.pruned()] == [str(neurons // 2)]
    assert Dag({"towers": folder, "export_pruned": {"ks": []}}, "x").pruned() == []


@pytest.mark.parametrize(
    ("towers", "neurons"),
    [
        ({"model": "ViT-B-32", "pretrained": "laion2b_s34b_b79k"}, 512),
        ({"model": "ViT-L-14-quickgelu", "recipe": "laclip-laion"}, 768),
        ({"recipe": "laclip-cc"}, 512),
        ("train", 128),
    ],
)
def test_the_width_of_a_model_is_known_before_it_is_there(
    checkpoint: str, towers: dict | str, neurons: int
) -> None:
    if isinstance(towers, dict):
        towers = {"name": "mine", **towers}
        towers |= {} if "pretrained" in towers else {"checkpoint": checkpoint}
    content = {"studies": ["image_text"], "towers": towers}
    dag = Dag(content, "x")
    assert [path.rpartition("~")[2] for path in dag.pruned()] == [str(neurons // 2)]
    with pytest.raises(UserError, match=f"more than the {neurons} neurons"):
        Dag({**content, "prune_neurons": {"ks": [neurons + 1]}}, "x")


def test_a_model_whose_width_only_its_file_decides(checkpoint: str) -> None:
    towers = {"name": "mine", "recipe": "laclip-laion", "checkpoint": checkpoint}
    with pytest.raises(UserError, match=r"export_pruned\.ks"):
        Dag({"towers": towers}, "x").pruned()
    assert len(Dag({"towers": towers, "export_pruned": {"ks": [64]}}, "x").pruned()) == 1


def test_towers_trained_by_a_definition_of_open_clip_have_its_width() -> None:
    config = {
        "studies": ["image_text"],
        "towers": "train",
        "pretrain_towers": {"definition": "ViT-B-32"},
    }
    assert Dag(config, "x").pruned()[0].endswith("~256")
