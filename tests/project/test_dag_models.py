"""Which models a configuration names."""

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mispair.core.files import UserError
from mispair.core.provenance import CHECKOUT
from mispair.dag import Dag
from mispair.evaluation.paths import PURITY, ZEROSHOT
from mispair.image_text.dag import measured
from mispair.pairs.paths import INDEX
from mispair.report import dag as of_report
from mispair.towers.checkpoints.model_spec import ModelSpec
from mispair.towers.paths import IMAGE_ROWS, TEXT_ROWS


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
    assert dag.results("laclip")[:3] == [
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
    assert dag.every(INDEX) == measured(dag, PURITY) == dag.simulation.files() == []


def test_labels_do_not_convert_a_model_again(checkpoint: str) -> None:
    model = {"name": "a", "recipe": "laclip-cc", "checkpoint": checkpoint}
    plain, labelled = (
        compare(model | labels).models.spec(SimpleNamespace(model="a"))
        for labels in ({}, {"pretraining": "CC12M", "method": "LaCLIP"})
    )
    assert plain == labelled
    assert ModelSpec.model_validate_json(plain) == ModelSpec.model_validate(model)


def test_a_model_can_be_fine_tuned_too(checkpoint: str, folder: str) -> None:
    spec = {"name": "mine", "recipe": "laclip-cc", "checkpoint": checkpoint}
    dag = Dag({"studies": ["image_text"], "towers": spec}, "x")
    assert dag.tower_files(SimpleNamespace(towers="mine")) == dag.models.files("mine")
    assert all(path.startswith("results/arms/scenes/mine/") for path in measured(dag, ZEROSHOT))
    dag = Dag({"studies": ["image_text"], "towers": {"name": "mine", "folder": folder}}, "x")
    assert Path(dag.models.files("mine")[0]).name == "open_clip_config.json"


def test_a_moved_run_names_the_same_inputs(tmp_path, monkeypatch, folder):
    """Snakemake compares the names of inputs: others would compute everything again."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/scenes-digit.templates.txt").write_text("a nice {c}\n")
    content = {
        "studies": ["image_text"], "evaluation_sets": ["scenes-digit"],
        "protocols": [str(tmp_path / "prompts"), "clip_benchmark"],
        "compare_towers": {"towers": [folder, 2]},
    }  # fmt: skip
    of = SimpleNamespace(evaluation_set="scenes-digit", protocol="prompts")

    def named(here: Path) -> list[str]:
        here.mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(here)
        dag = Dag(content, "x")
        of_models = [path for name in ("scenes-small", "clip") for path in dag.models.files(name)]
        others = dag.evaluation.protocol_files(of), of_report.files("report/templates/*")
        return [*of_models, *dag.training.definition, *others[0], *others[1]]

    paths = named(tmp_path / "run")
    assert paths == named(tmp_path / "moved/further/run")
    assert all(map(os.path.isabs, paths))
    in_checkout = {path for path in named(CHECKOUT / "docs") if not os.path.isabs(path)}
    assert (
        in_checkout == {os.path.relpath(path) for path in paths if str(CHECKOUT) in path} != set()
    )


@pytest.mark.parametrize(("models", "words"), [
    ([{"name": "a", "recipe": "laclip-cc", "checkpoint": "gone.pt"}], "/gone.pt."),
    ([{"name": "a", "folder": "gone"}], "models[0].folder: 'gone' is neither"),
    ([{"name": "a", "model": "ViT-B-32", "pretrained": "x"}] * 2, "two models are called 'a'"),
    ([{"name": "a", "recipe": "laclip"}], "laclip"),
    ([{"name": "a"}], "does not say what it is"),
    ([], "models: the list is empty"),
])  # fmt: skip
def test_what_is_missing_is_named_before_any_job(models: list[dict], words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        compare(*models)


def test_pruning_keeps_no_more_neurons_than_there_are(folder: str) -> None:
    Dag({"towers": folder, "prune_neurons": {"ks": ["500-512:4"]}}, "x")
    with pytest.raises(UserError, match="600 is more than the 512 neurons"):
        Dag({"towers": folder, "prune_neurons": {"ks": [600]}}, "x")
    Path(folder, "open_clip_config.json").write_text(json.dumps({"model_cfg": {}}))
    with pytest.raises(UserError, match=r"names no model_cfg\.embed_dim"):
        Dag({"towers": folder}, "x")


@pytest.mark.parametrize("neurons", [64, 128, 512])
def test_pruning_follows_the_width_of_the_model(folder: str, neurons: int) -> None:
    content = json.dumps({"model_cfg": {"embed_dim": neurons}})
    Path(folder, "open_clip_config.json").write_text(content)
    dag = Dag({"towers": folder}, "x")
    assert "--ks none" in dag.flags("prune_neurons")
    with pytest.raises(UserError, match=f"more than the {neurons} neurons"):
        Dag({"towers": folder, "prune_neurons": {"ks": [neurons + 1]}}, "x")


@pytest.mark.parametrize(("towers", "neurons"), [
    ({"model": "ViT-B-32", "pretrained": "laion2b_s34b_b79k"}, 512),
    ({"model": "ViT-L-14-quickgelu", "recipe": "laclip-laion"}, 768),
    ({"recipe": "laclip-cc"}, 512),
    ("train", 128),
    ("train ViT-B-32", 512),
])  # fmt: skip
def test_the_width_of_a_model_is_known_before_it_is_there(checkpoint, towers, neurons):
    content: dict[str, Any] = {"studies": ["image_text"]}
    if isinstance(towers, dict):
        towers = {"name": "mine", **towers}
        towers |= {} if "pretrained" in towers else {"checkpoint": checkpoint}
    elif definition := towers.removeprefix("train").strip():
        towers, content["pretrain_towers"] = "train", {"definition": definition}
    content["towers"] = towers
    with pytest.raises(UserError, match=f"more than the {neurons} neurons"):
        Dag({**content, "prune_neurons": {"ks": [neurons + 1]}}, "x")


def replicates(*towers: int | str, **sections: dict) -> Dag:
    content = {"studies": ["image_text"], "make_scenes": {"seed": 1}} | sections
    return Dag(content | {"compare_towers": {"towers": [*towers]}}, "x")


def test_every_arm_is_measured_on_each_pair_of_towers() -> None:
    dag = replicates("shipped", "shipped-1", 2)
    assert dag.models.replicates == ["scenes-small", "scenes-small-1", "trained-2"]
    # The main towers are one of the pairs, so their files exist once.
    purity = measured(dag, PURITY, towers=dag.models.replicates)
    assert purity[: len(dag.arms)] == measured(dag, PURITY)
    assert len(purity) == 3 * len(dag.arms)
    assert "results/arms/scenes/towers.json" in dag.results()
    of_seed = dag.tower_files(SimpleNamespace(towers="trained-2"))
    assert of_seed[0] == "results/towers/trained-2/open_clip_config.json"
    features = dag.of_towers(IMAGE_ROWS, TEXT_ROWS)(SimpleNamespace(towers="trained-2"))
    assert {str(Path(path).parent) for path in features} == {"results/features/scenes/trained-2"}
    assert len(features) == len(dag.pairs.groups) + len(dag.caption_parts)


def test_towers_of_seeds_differ_in_their_seed_and_learn_from_other_scenes() -> None:
    dag = replicates(2, 3, make_scenes={"seed": 5}, pretrain_towers={"epochs": 7})
    assert dag.training.scenes() == dag.flags("make_scenes").replace("--seed 5", "--seed 0")
    two, three = (dag.training.of_seed(SimpleNamespace(seed=seed)) for seed in "23")
    assert "--seed 2 " in two
    assert "--epochs 7 " in two
    assert three == two.replace("--seed 2 ", "--seed 3 ")
    assert "--device cpu " in two


def test_no_pair_of_towers_is_compared_by_default(folder: str) -> None:
    for dag in (Dag({}, "x"), replicates(), replicates(2, 3, studies=["audit"])):
        assert not [path for path in dag.results() if path.endswith("/towers.json")]
        assert measured(dag, PURITY, towers=dag.models.replicates) == []


def test_towers_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"compare_towers\.corpus_seed: 0 is make_scenes\.seed"):
        replicates(2, 3, make_scenes={"seed": 0})
    with pytest.raises(UserError, match="neither one of `shipped`.* nor a seed nor a folder"):
        replicates(2, "gone")
    namesake = tmp_path / "trained-2"
    namesake.mkdir()
    (namesake / "open_clip_config.json").touch()
    (namesake / "open_clip_model.safetensors").touch()
    with pytest.raises(UserError, match="two models are called 'trained-2'"):
        replicates(2, str(namesake))
    with pytest.raises(UserError, match="batch_size|pairs"):
        replicates(2, 3, make_scenes={"seed": 1, "shards": 1, "pairs_per_shard": 10})
