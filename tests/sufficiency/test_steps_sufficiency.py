"""The steps of the sufficiency study, by hand: files, bytes, and what they refuse."""

from pathlib import Path
from typing import Any

import pytest
from snakemake.iocontainers import Wildcards

from mispair.config import validate
from mispair.core import files
from mispair.core import resume as checkpoints
from mispair.core.devices import free_memory
from mispair.core.files import UserError
from mispair.core.metrics import read_metrics
from mispair.dag import Dag
from mispair.sufficiency.settings import OF_ENCODERS, TASKS, Size
from mispair.sufficiency.steps import (
    draw_trees,
    measure_bayes,
    measure_sufficiency,
    measure_transfer,
    train_encoders,
    train_head,
)

SMALL = {"width": 8, "blocks": 1, "steps": 4, "batch_size": 8, "device": "cpu"}


def trees(folder: Path, size: str = "2x2x3", tree: int = 0) -> Path:
    path = folder / size / f"tree~{tree}" / "trees.safetensors"
    draw_trees.run(draw_trees.Settings(), size=size, tree=tree, trees=path)
    return path


def encoders(folder: Path, name: str = "encoders", variant: str = "standard", **more: Any) -> Path:
    path = folder / f"{name}.safetensors"
    train_encoders.run(
        train_encoders.Settings(**{**SMALL, **more}), trees=trees(folder), flip=0.2,
        variant=variant, seed=0, checkpoint=folder / "state", encoders=path,
    )  # fmt: skip
    return path


def head(folder: Path, task: str, arm: str, read: list[Path], **more: Any) -> Path:
    path = folder / f"{task}-{arm}.safetensors"
    train_head.run(
        train_head.Settings(**{**SMALL, **more}), trees=trees(folder), flip=0.2, task=task,
        arm=arm, seed=0, encoders=read, checkpoint=folder / "state", head=path,
    )  # fmt: skip
    return path


def test_from_trees_to_metrics(tmp_path: Path) -> None:
    bayes = tmp_path / "bayes.json"
    settings = measure_bayes.Settings(samples=200, flips=[0.2], device="cpu")
    measure_bayes.run(settings, trees=trees(tmp_path), bayes=bayes)
    rows, about = read_metrics(bayes)
    assert {row["task"] for row in rows if row["metric"] == "risk"} == {"clip", "zsc", "cdm", "vlm"}
    assert about["trees"]["size"] == "2x2x3"

    trained = [
        encoders(tmp_path, "standard"),
        encoders(tmp_path, "guided", "guided", blocks=2),
        encoders(tmp_path, "shallow", "shallow", blocks=2),
    ]
    found = tmp_path / "sufficiency.json"
    settings = measure_sufficiency.Settings(
        samples=100, candidates=[2, 4], per_class=[1, 10, 20], classified=100,
        device="cpu",
    )  # fmt: skip
    measure_sufficiency.run(settings, trees=trees(tmp_path), flip=0.2, seed=0, encoders=trained,
                            sufficiency=found)  # fmt: skip
    rows, _ = read_metrics(found)
    arms = {row["arm"] for row in rows if row["metric"] == "sufficiency"}
    assert arms == {"standard", "guided", "shallow", "untrained"}
    assert all(row["size"] == "2x2x3" and row["tree"] == row["seed"] == 0 for row in rows)
    made = [
        head(tmp_path, task, arm, trained[:1] if arm in OF_ENCODERS else [])
        for task in TASKS for arm in ("frozen", "untrained", "oracle", "joint")
    ]  # fmt: skip
    _, about = files.read_tensors(made[3])
    assert (about["arm"], about["blocks"]) == ("joint", "1")
    transfer = tmp_path / "transfer.json"
    measured = measure_transfer.Settings(samples=100, device="cpu")
    measure_transfer.run(measured, trees=trees(tmp_path), flip=0.2, seed=0, encoders=trained[:1],
                         heads=made, transfer=transfer)  # fmt: skip
    rows, _ = read_metrics(transfer)
    assert {row["arm"] for row in rows if row["metric"] == "difference"} == {
        "unconditional", "frozen", "untrained", "oracle", "joint",
    }  # fmt: skip
    frozen, untrained = (
        next(row["value"] for row in rows if row["arm"] == arm and row["metric"] == "risk")
        for arm in ("frozen", "untrained")
    )
    assert frozen != untrained


@pytest.mark.parametrize("step", ["encoders", "head"])
def test_a_job_that_is_asked_to_end_goes_on_to_the_same_bytes(step, tmp_path, monkeypatch) -> None:
    read = [encoders(tmp_path, "read")]

    def run() -> bytes:
        path = encoders(tmp_path) if step == "encoders" else head(tmp_path, "cdm", "frozen", read)
        content = path.read_bytes()
        path.unlink()
        return content

    whole = run()
    asked = []

    def due(self: checkpoints.ArrayKeeper) -> bool:
        asked.append(1)
        self.ending = lambda: len(asked) == 2
        return len(asked) == 2

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.ArrayKeeper, "due", due)
        # `FileKeeper` takes the method over when it is made.
        with pytest.raises(checkpoints.Interrupted, match="goes on from there"):
            run()
    assert list((tmp_path / "state").glob("*.safetensors"))
    seen = []
    from mispair.core import training

    schedule = training.TrainingPlan.lr_at
    monkeypatch.setattr(
        training.TrainingPlan, "lr_at", lambda self, step: seen.append(step) or schedule(self, step)
    )
    assert run() == whole
    assert seen == [2, 3]
    assert not (tmp_path / "state").exists()


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"train_encoders": {"flips": [1.2]}}, ["train_encoders.flips[0]", "1.2", "Flip prob"]),
        ({"measure_bayes": {"flips": [-0.1]}}, ["measure_bayes.flips[0]", "-0.1"]),
        ({"train_head": {"flips": [2]}}, ["train_head.flips[0]", "(given: 2)"]),
        ({"draw_trees": {"symbols": 1}}, ["draw_trees.symbols", "S, 2 or more"]),
        (
            {"train_encoders": {"candidates": 65}},
            ["candidates: 65 are more than the batch_size of 64"],
        ),
        (
            {"measure_sufficiency": {"candidates": [4, 6000]}},
            ["candidates: 6000 are more than the 5000 samples"],
        ),
    ],
)
def test_a_wrong_configuration_is_explained(content: dict, words: list[str]) -> None:
    with pytest.raises(UserError) as refused:
        validate(content, "mine.yaml")
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            {"train_encoders": {"variants": ["guided"], "blocks": 1}},
            "train_encoders.blocks: guided encoders need a block for each of the 2 levels",
        ),
        (
            {"train_encoders": {"variants": ["guided"], "width": 9}},
            "train_encoders.width: guided encoders need a channel for each of the 10",
        ),
        ({"train_head": {"vlm_width": 9}}, "train_head.vlm_width: a token needs a channel for"),
    ],
)
def test_models_too_small_for_their_messages_fail_before_any_job(content, words) -> None:
    with pytest.raises(UserError, match=words):
        Dag({"studies": ["sufficiency"], **content}, "x")
    Dag({"studies": ["simulation"], **content}, "x")  # a study that is not run needs nothing


def test_a_step_by_hand_says_what_is_wrong(tmp_path: Path) -> None:
    for size, words in (
        ("2x3x1", "an alphabet of 1 is too small"),
        ("2x0x3", "depth and branching must be 1 or more"),
        ("2x3", "depth x branching x symbols"),
    ):
        with pytest.raises(UserError, match=words):
            trees(tmp_path, size)
    with pytest.raises(UserError, match="draw_trees.seeds: -1 is not between 0 and"):
        trees(tmp_path, tree=-1)
    given = trees(tmp_path)
    with pytest.raises(UserError, match="between 0 and 1, not 1.5"):
        train_encoders.run(
            train_encoders.Settings(**SMALL), trees=given, flip=1.5, variant="standard", seed=0,
            checkpoint=tmp_path / "state", encoders=tmp_path / "x",
        )  # fmt: skip
    with pytest.raises(UserError, match="measure_bayes.candidates: 200 are more than the 100"):
        measure_bayes.run(measure_bayes.Settings(samples=100, candidates=200), trees=given,
                          bayes=tmp_path / "x")  # fmt: skip
    with pytest.raises(UserError, match="there is no guidance; there are standard, guided"):
        encoders(tmp_path, variant="guidance")
    with pytest.raises(UserError, match="there is no cdm of thawed"):
        head(tmp_path, "cdm", "thawed", [])
    with pytest.raises(UserError, match="--encoders: frozen takes one file"):
        head(tmp_path, "cdm", "frozen", [])
    with pytest.raises(UserError, match=r"train_encoders \(standard, p = 0.2, seed 0\): the"):
        encoders(tmp_path, lr=1e30, steps=20)


def test_a_tree_too_large_for_memory_is_refused_before_anything_is_allocated(tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"one tree of 3,486,784,401 leaves would take [\d,]+") as e:
        trees(tmp_path, "20x3x10")
    assert "GB of memory, but there are" in str(e.value)
    assert "lower depth, branching or symbols" in str(e.value)
    given, read = trees(tmp_path), [encoders(tmp_path)]
    made = [head(tmp_path, "cdm", "joint", [])]
    monkeypatch.setattr("mispair.sufficiency.settings.free_memory", lambda device: 10_000)
    for run, words in (
        (lambda: encoders(tmp_path), "a batch of 8 pairs of 4 leaves each would take"),
        (lambda: head(tmp_path, "cdm", "joint", []), "lower train_head.batch_size, width"),
        (
            lambda: measure_bayes.run(measure_bayes.Settings(), trees=given, bayes=tmp_path / "x"),
            "10,000 pairs of 4 leaves each",
        ),
        (
            lambda: measure_sufficiency.run(
                measure_sufficiency.Settings(), trees=given, flip=0.2, seed=0, encoders=read,
                sufficiency=tmp_path / "x",
            ),
            "lower measure_sufficiency.samples",
        ),
        (
            lambda: measure_transfer.run(
                measure_transfer.Settings(), trees=given, flip=0.2, seed=0, encoders=[],
                heads=made, transfer=tmp_path / "x",
            ),
            "lower measure_transfer.samples",
        ),
    ):  # fmt: skip
        with pytest.raises(UserError, match=words):
            run()


def test_what_is_reckoned_is_what_torch_allocates() -> None:
    """Of a step of training: within a factor of two of the bytes that autograd keeps."""
    import torch

    from mispair.sufficiency.encoders import TreeEncoder

    size = Size(2, 3, 10)
    encoder = TreeEncoder(size.leaves, size.symbols, 32, 3)
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    weights = sum(4 * values.numel() for values in encoder.parameters())
    leaves = torch.zeros(128, size.leaves, dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = encoder(leaves)
    reckoned = size.bytes_of_training(128, 32, 3, size.leaves)
    assert reckoned / 2 < sum(kept.values()) - weights < 2 * reckoned
    assert output.shape == (128, 10)
    assert free_memory("cpu") > 10**8


# The jobs -----------------------------------------------------------------------------------------


def test_jobs_of_the_study() -> None:
    content = {
        "studies": ["sufficiency"],
        "draw_trees": {"seeds": [42, 7]},
        "train_encoders": {"flips": [0.1, 0.2], "seeds": [0, 1], "variants_flips": [0.2],
                           "variants": ["standard", "guided"]},
        "train_head": {"arms": ["frozen", "joint"]},
    }  # fmt: skip
    study = Dag(content, "x").sufficiency
    assert study.bayes() == [
        "results/sufficiency/2x3x10/tree~42/bayes.json",
        "results/sufficiency/2x3x10/tree~7/bayes.json",
        "results/sufficiency/4x3x10/tree~42/bayes.json",
    ]
    assert len(study.measured()) == 8
    assert study.transferred()[0] == (
        "results/sufficiency/2x3x10/tree~42/p~0.2/seed~0/transfer.json"
    )
    assert len(study.transferred()) == 4

    def job(flip: str, head: str = "frozen") -> Wildcards:
        values = {"size": "2x3x10", "tree": "42", "flip": flip, "seed": "0", "head": head}
        return Wildcards(fromdict=values)

    assert [Path(path).name for path in study.encoders_of(job("0.2"))] == [
        "encoders-standard.safetensors", "encoders-guided.safetensors",
    ]  # fmt: skip
    assert len(study.encoders_of(job("0.1"))) == 1
    assert len(study.encoders_of_head(job("0.2"))) == 1
    assert study.encoders_of_head(job("0.2", "joint")) == []
    of_all = Wildcards(fromdict={key: value for key, value in job("0.2").items() if key != "head"})
    assert [Path(path).name for path in study.heads_of(of_all)] == [
        "cdm-frozen.safetensors", "cdm-joint.safetensors",
        "vlm-frozen.safetensors", "vlm-joint.safetensors",
    ]  # fmt: skip
    published = {"studies": ["sufficiency"], "draw_trees": {"depth": 4}}
    assert len(Dag(published, "x").sufficiency.bayes()) == 1
