"""What the rules ask of a configuration."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake.iocontainers import Wildcards
from snakemake.settings.types import ResourceSettings

from mispair.audit.dag import weighing
from mispair.core.commands import step_names
from mispair.core.files import UserError
from mispair.core.provenance import PACKAGE
from mispair.dag import Dag
from mispair.evaluation import paths as evaluation
from mispair.image_text.dag import measured
from mispair.pairs import paths as pairs
from mispair.repair.rules import RULES
from mispair.run_checks import names_gpus, replaced_report
from mispair.towers import paths as towers
from mispair.towers.dag import SHIPPED
from mispair.towers.pretraining.pretraining import corpus_fingerprint
from tests.evaluation.test_dag_evaluation import write_set


def test_arms_of_the_embedded_configuration() -> None:
    arms = [*map(str, Dag({}, "config.yaml").arms)]
    assert arms[0] == "untouched"
    assert "pretrained_random~0" in arms
    assert "reinitialised_random~0.8" in arms
    assert "pretrained_similar~0.8" in arms
    assert "pretrained_similar~0" not in arms  # the same as random~0
    # Controls of training are run on the first scheme only.
    assert "without-decay_random~0.8" in arms
    assert "reinitialised_similar~0.8" not in arms
    # The control that solves for the scale is run at every rate, the five others at both ends.
    assert len(arms) == 1 + 9 + 5 + 5 * 2
    assert {"scale-converged_random~0.3", "scale-10_random~0", "scale-10_random~0.8"} <= set(arms)
    assert "scale-10_random~0.3" not in arms
    every = Dag({"finetune_projection": {"control_rates": None}}, "config.yaml").arms
    assert len(every) == 1 + 9 + 6 * 5
    three = Dag({"finetune_projection": {"control_rates": 3}}, "config.yaml").arms
    assert [str(arm) for arm in three if arm.start == "scale-10"] == [
        "scale-10_random~0", "scale-10_random~0.3", "scale-10_random~0.8",
    ]  # fmt: skip
    fewer = {"corrupt_captions": {"rates": [0.0, 0.5]}, "finetune_projection": {"control_rates": 3}}
    assert len(Dag(fewer, "config.yaml").arms) == 1 + 3 + 6 * 2


def test_files_of_the_simulation() -> None:
    dag = Dag({"simulate": {"spurious_probabilities": [0, 0.15], "trials": 1}}, "x")
    assert dag.simulation.files() == [
        "results/simulation/as-run/cs~0/trials~0-0.json",
        "results/simulation/as-run/cs~0.15/trials~0-0.json",
    ]
    assert dag.simulation.trials(SimpleNamespace(first="2", last="3")) == [2, 3]
    assert Dag({"studies": ["image_text"]}, "x").simulation.files() == []


def test_a_job_is_called_with_its_own_arms_and_settings() -> None:
    dag = Dag({"simulate": {"arms_trials": 1, "bridge_trials": 1}}, "x")

    def wildcards(condition: str, trial: int) -> Wildcards:
        of = {"condition": condition, "spurious_probability": "0.3"}
        return Wildcards(fromdict={**of, "first": trial, "last": trial})

    with_all_arms, of_figure_1 = wildcards("as-run", 0), wildcards("as-run", 1)
    assert dag.simulation.arms(with_all_arms)[:3] == ["raw", "filtered", "replace-all"]
    assert dag.simulation.arms(of_figure_1) == ["raw", "filtered"]
    assert dag.simulation.flags(with_all_arms) == dag.simulation.flags(of_figure_1)
    assert "--filter-factor 1.2 " in dag.simulation.flags(with_all_arms)
    assert "--filter-factor 1.0 " in dag.simulation.flags(wildcards("bridge~filter", 0))
    # A file that no configuration asks for can be made by hand all the same.
    assert dag.simulation.arms(wildcards("as-run", 7)) == ["raw", "filtered"]


def simulating(**settings: Any) -> dict[str, Any]:
    return {"studies": ["simulation"], "simulate": settings}


def training(**settings: Any) -> dict[str, Any]:
    return {"studies": ["image_text"], "towers": "train", "index_shards": settings}


def small(**towers: int) -> dict[str, Any]:
    return {"studies": ["pretraining"], "train_small_towers": towers}


@pytest.mark.parametrize(("content", "words"), [
    (simulating(trials=2, arms_trials=3), "simulate.arms_trials: 3 are more than the 2 trials"),
    (simulating(trials=2, bridge_trials=3), "simulate.bridge_trials: 3 are more"),
    (simulating(misalignment="partner", spurious_probabilities=[0.5, 0.6]),
     "simulate.spurious_probabilities: C_s = 0.6 .*1/2.* .condition as-run."),
    (simulating(spurious_probabilities=[0.9], compare_presets=True),
     "C_s = 0.9 .*misalignment: groups.*.condition as-written"),
    (simulating(bridge_trials=1, bridge_probabilities=[0.9]),
     "simulate.bridge_probabilities.*.condition as-written and 1 more."),
    (simulating(misalignment="partner", arms_trials=1, arms_probabilities=[0.7]),
     "simulate.arms_probabilities: C_s = 0.7"),
    (simulating(grid_trials=1, grid_probability=0.6),
     "simulate.grid_probability: C_s = 0.6 .*independent.*and 8 more"),
    (simulating(d=12, classes=4, bridge_trials=1),
     "simulate.spurious_group_size: d = 12.*.condition as-written and 1 more."),
    ({"towers": "nowhere"}, "neither one of `shipped`, `shipped-1` nor `train`"),
    ({"evaluation_sets": ["a/set", "b/set"]}, "two sets are called 'set'"),
    ({"studies": ["audit"], "towers": "train"}, "clean to a model that was trained on it"),
    (training(caption_from="json:a"), "towers: `train`.*captions_per_line"),
    (training(captions_per_line=True), "towers: `train`.*captions_per_line"),
    (small(held_out=20_000), "fewer than a batch"),
    (small(crop=32), "decode_pictures.side"),
    (small(embedding=3), "measure_mixing.components"),
])  # fmt: skip
def test_what_cannot_be_is_refused_before_any_job(content, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for parent in "ab":
        write_set(tmp_path / parent / "set")
    with pytest.raises(UserError, match=f"(?s){words}"):
        Dag(content, "x")
    if "simulate" in content:
        assert not Dag(content | {"studies": ["image_text"]}, "x").simulation.files()


def test_shards_are_grouped_and_each_stands_in_one_group(tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"{number}.tar").touch()
    dag = Dag({"shards": str(tmp_path), "index_shards": {"shards_per_job": 3}}, "x")
    assert [len(group) for group in dag.pairs.groups.values()] == [3, 3, 1]
    assert len({shard for group in dag.pairs.groups.values() for shard in group}) == 7


def test_tar_shards_under_either_key_are_the_same(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.tar").touch()
    old, new = (Dag({key: f"{tmp_path}/*.tar"}, "x") for key in ("shards", "pairs"))
    assert old.pairs.groups == new.pairs.groups
    assert old.flags("index_shards") == new.flags("index_shards")
    with pytest.raises(UserError, match="shards: `pairs` names a source, too"):
        Dag({"shards": str(tmp_path), "pairs": str(tmp_path)}, "x")


def test_other_pairs_are_packed_and_captions_of_tables_are_in_json(tmp_path: Path) -> None:
    for name in ("a", "b.c"):
        (tmp_path / f"{name}.jpg").touch()
        (tmp_path / f"{name}.txt").touch()
    (tmp_path / "pairs.csv").write_text("filepath,title\na.jpg,one\n")
    folder = Dag({"pairs": {"path": str(tmp_path), "captions": ".txt"}, "corpus": "mine"}, "x")
    assert folder.pairs.groups == {"0000": ["results/pairs/mine/packed/0000.tar"]}
    assert folder.pairs.example_keys() == ["a", "b.c"]
    assert "--caption-from txt" in folder.flags("index_shards")
    table = Dag({"pairs": str(tmp_path / "pairs.csv")}, "x")
    assert "--caption-from json:captions" in table.flags("index_shards")
    assert table.pairs.tables_of_pairs() == [str(tmp_path / "pairs.csv")]
    given = {"pairs": str(tmp_path / "pairs.csv"), "index_shards": {"caption_from": "json:blip"}}
    assert "--caption-from json:blip" in Dag(given, "x").flags("index_shards")


def test_a_study_that_is_not_run_needs_none_of_its_files() -> None:
    dag = Dag({"studies": ["simulation"], "shards": "nowhere/*.tar", "towers": "nowhere"}, "x")
    assert measured(dag, evaluation.PURITY) == dag.every(pairs.INDEX) == dag.pieces() == []
    assert dag.every(towers.IMAGE_FEATURES) == dag.results("image_text") == []


def test_towers_that_are_part_of_mispair_are_named() -> None:
    for name, folder in (("shipped", "scenes-small"), ("shipped-1", "scenes-small-1")):
        dag = Dag({"towers": name, "studies": ["image_text"]}, "x")
        assert dag.towers == folder
        assert Path(dag.models.files(folder)[0]).parent.name == folder
        assert dag.device("encode_features") == "cpu"


def test_every_path_is_relative() -> None:
    """An absolute path in the DAG would rerun everything in a moved checkout."""
    dag = Dag({"protocols": ["clip_benchmark", "laclip"], "evaluation_sets": ["scenes-digit"]}, "x")
    paths = [*dag.models.files("scenes-small"), *dag.results()]
    paths += [*dag.simulation.files(), *dag.evaluation.prompts("scenes-small")]
    laclip = SimpleNamespace(evaluation_set="scenes-digit", protocol="laclip")
    paths += dag.evaluation.protocol_files(laclip)
    assert not any(Path(path).is_absolute() for path in paths)


def test_reading_the_snakefile_imports_nothing_heavy() -> None:
    """Every job on a cluster reads it anew, twice."""
    heavy = ("torch", "open_clip", "pandas", "pyarrow", "sklearn", "scipy", "matplotlib", "altair")
    printed = subprocess.run(
        [sys.executable, "-c", f"import sys, mispair.dag; print(sys.modules.keys() & {heavy})"],
        cwd=PACKAGE.parent, text=True, stdout=subprocess.PIPE, check=True,
    ).stdout  # fmt: skip
    assert printed.strip() == "set()"


@pytest.mark.parametrize("groups", [10, 1000])
def test_a_group_looks_at_its_own_shards_only(tmp_path, monkeypatch, groups):
    for number in range(2 * groups):
        (tmp_path / f"{number:05d}.tar").touch()
    dag = Dag({"shards": str(tmp_path), "index_shards": {"shards_per_job": 2}}, "x")
    looked: list[Path] = []
    is_file = Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda path: looked.append(path) or is_file(path))
    for group in dag.pairs.groups:
        wildcards = SimpleNamespace(group=group)
        assert len(dag.pairs.shards_of(wildcards)) == 2
        dag.pairs.downloads_of(wildcards)
    assert len(looked) == 2 * groups


def test_another_configuration_is_told_that_it_replaces_a_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = Dag({"studies": ["image_text"]}, "x")
    assert replaced_report(first) == ""
    record = tmp_path / "reports/run.json"
    record.parent.mkdir()
    record.write_text(json.dumps(first.config.model_dump(mode="json")))
    rates = {"corrupt_captions": {"rates": [0.5]}}
    assert replaced_report(Dag({"studies": ["image_text", "stepsize"], **rates}, "x")) == ""
    assert "corpus" in replaced_report(Dag({"studies": ["image_text"], "corpus": "b"}, "x"))
    assert "studies" in replaced_report(Dag({"studies": ["stepsize"]}, "x"))
    record.write_text("[")
    assert replaced_report(first) == ""


def test_small_jobs_and_word_counts_ask_for_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mispair.dag.has_gpu", lambda: True)
    demo = Dag({}, "x")
    steps = [step for step in step_names() if hasattr(getattr(demo.config, step, 0), "device")]
    for step in steps:
        assert demo.gpus(step) == 0, step
        assert "--device cpu" in demo.flags(step), step
    on_gpu = Dag({step: {"device": "cuda"} for step in steps}, "x")
    assert {step for step in steps if not on_gpu.gpus(step)} == {"find_similar_captions"}
    compared = Dag({"find_similar_captions": {"measure": "features", "device": "cuda"}}, "x")
    assert compared.gpus("find_similar_captions") == 1


@pytest.mark.parametrize(("settings", "expected"), [
    ({"nodes": 50, "default_resources": {"gpu_model": "a100"}}, True),
    ({"nodes": 50, "overwrite_resources": {"encode_features": {"gpu_model": "v100"}}}, True),
    ({"nodes": 50, "default_resources": {"slurm_account": "lab"}}, False),
    ({"nodes": 50}, False),
    ({"cores": 2, "default_resources": {"gpu_model": "a100"}}, False),
])  # fmt: skip
def test_auto_follows_the_kind_of_gpu_that_a_cluster_profile_names(settings, expected, monkeypatch):
    monkeypatch.setattr("mispair.dag.has_gpu", lambda: False)
    assert names_gpus(ResourceSettings(**settings)) is expected
    large = Dag({"draw_trees": {"depth": 4, "branching": 3}}, "x", expected)
    demo = Dag({}, "x", expected)
    assert demo.gpus("train_encoders") == 0
    assert large.gpus("train_encoders") == expected


def test_large_jobs_take_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mispair.dag.has_gpu", lambda: True)
    large = {"draw_trees": {"depth": 4, "branching": 3}, "train_encoders": {"blocks": 4}}
    dag = Dag(large, "x")
    assert [dag.gpus(step) for step in ("train_encoders", "train_head")] == [1, 1]


def test_weights_add_an_arm_at_every_rate_of_every_scheme() -> None:
    changes = {
        "corrupt_captions": {"schemes": ["random", "similar"], "rates": [0.0, 0.8]},
        "finetune_projection": {"starts": ["pretrained"], "weights": "audit", "seeds": 2},
    }
    built = Dag(changes, "config")
    arms = [str(arm) for arm in built.arms]
    of = "audit-weighted"
    assert [arm for arm in arms if arm.startswith(of)] == [
        f"{of}_random~0", f"{of}_random~0.8", f"{of}_similar~0.8"
    ]  # fmt: skip
    assert "--seeds 2 --seed 0" in weighing(built)
    with pytest.raises(UserError, match="looks clean to a model that was trained on it"):
        Dag({**changes, "towers": "train"}, "config")


SEEN = [
    {"studies": ["audit"]},
    {"studies": ["image_text"], "finetune_projection": {"weights": "audit"}},
    {"studies": ["repair"], "filter_captions": {"rules": ["raw", "posterior"]}},
]
"""Configurations in which the towers judge which captions are wrong."""


@pytest.mark.parametrize("changes", SEEN)
def test_towers_do_not_judge_the_pairs_that_they_were_trained_on(changes, tmp_path):
    """Pairs are known by the seed of generated ones, and by the fingerprint of a user's own."""
    with pytest.raises(UserError, match="make_scenes.seed"):
        Dag({**changes, "make_scenes": {"seed": 0, "shards": 3}}, "config")
    assert Dag({**changes, "make_scenes": {"seed": 1}}, "config").training_record() == []
    towers, shards = tmp_path / "towers", tmp_path / "shards"
    shutil.copytree(SHIPPED["shipped"], towers)
    shards.mkdir()
    for content in ("other", "seen"):
        (shards / "a.tar").write_text(content)
        fingerprint = corpus_fingerprint([shards / "a.tar"])
        corpus = {"fingerprint": fingerprint, "shards": ["a.tar"], "pairs": 1}
        (towers / "training.json").write_text(json.dumps({"corpus": corpus}))
    own = {**changes, "towers": str(towers), "shards": str(shards)}
    with pytest.raises(UserError, match="training.json"):
        Dag(own, "config")
    (shards / "a.tar").write_text("unseen")
    unseen = Dag(own, "config")
    assert [Path(path).name for path in unseen.training_record()] == ["training.json"]
    assert unseen.shards_to_compare() == [str(shards / "a.tar")]
    (shards / "a.tar").rename(shards / "b.tar")
    assert Dag(own, "config").shards_to_compare() == []


def test_own_data_are_compared_without_right_captions():
    """README's example of a repair: every rule has raw captions as its reference."""
    rules = ["raw", "factor", "drop", "posterior"]
    own = {
        "studies": ["audit", "repair"], "corrupt_captions": {"rates": [0.0]},
        "filter_captions": {"rules": rules, "rates": [0.0]},
    }  # fmt: skip
    answers = Dag(own, "config").repair.answers()
    assert [path.split("/")[4].split("_")[0] for path in answers] == [
        f"repair-{rule}" for rule in rules
    ]
    assert all("raw" in rule.references for name, rule in RULES.items() if name != "raw")


def test_an_audit_alone_encodes_the_corpus_and_trains_no_arm() -> None:
    dag = Dag({"studies": ["audit"]}, "config.yaml")
    assert dag.every(towers.IMAGE_FEATURES)
    assert dag.results() == dag.results("audit") == [
        f"results/{name}.json".replace("*", "scenes/scenes-small")
        for name in ("audit/*/audit", "audit/*/calibration", "audit/*/selection",
                     "audit/*/similar_by_labels", "review/*/strata", "review/*/review",
                     "pairs/scenes/statistics")
    ]  # fmt: skip
    assert not measured(dag, evaluation.PURITY)
    assert "suspects" in "".join(dag.pieces())
    assert not dag.curves()


@pytest.mark.parametrize("study", ["simulation", "image_text"])
def test_what_is_trained_has_curves(study: str) -> None:
    assert Dag({"studies": ["audit", study]}, "config.yaml").curves()


def test_an_audit_needs_a_study_that_encodes_the_corpus() -> None:
    from mispair.audit.dag import files

    with pytest.raises(UserError, match="Add audit to `studies`"):
        files(Dag({"studies": ["simulation"]}, "config.yaml"))


def test_the_demo_is_named_where_no_configuration_is_given() -> None:
    assert "--configfile" in Dag({}, {}).pairs.echo()
    assert "--configfile" in Dag({"corpus": "mine"}, {"--config": {"corpus": "mine"}}).pairs.echo()
    assert "--configfile" not in Dag({}, {"mine.yaml": {}}).pairs.echo()
    assert "name yours by pairs" in Dag({}, "config.yaml").pairs.echo()


@pytest.mark.parametrize(("given", "names"), [
    ("parts", ["a.csv", "b.csv"]),
    ("parts/*.csv", ["a.csv", "b.csv"]),
    (["parts/b.csv"], ["b.csv"]),
    ("none", "captions: there is no file"),
    ("lines.txt", "captions without keys"),
])  # fmt: skip
def test_caption_tables_are_found_before_any_job(given, names, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("parts").mkdir()
    for path in ("parts/a.csv", "parts/b.csv", "lines.txt"):
        Path(path).write_text("key,caption\n1,x\n")
    if isinstance(names, str):
        with pytest.raises(UserError, match=names):
            Dag({"captions": given}, "x")
        return
    dag = Dag({"captions": given}, "x")
    assert [Path(path).name for path in dag.pairs.caption_tables()] == names
    assert len(dag.captions()) == 1
    section = {"captioner": "given", "model": given, "join": "json:a.b"}
    dag = Dag({"studies": ["repair"], "recaption_pairs": section}, "x")
    assert [Path(path).name for path in dag.repair.captioner_files()] == names
    assert dag.repair.index_of_part(None) == dag.every(pairs.INDEX)
    assert "--json-fields json:a.b" in dag.flags("index_shards")
