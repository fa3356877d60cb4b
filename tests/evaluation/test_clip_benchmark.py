"""Numbers of the real steps against CLIP_benchmark's own, on the same model and the same files.

CLIP_benchmark runs the whole towers on pictures that it decodes itself; the steps take towers
apart, keep features, and multiply.
"""

import gc
import io
import tarfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import open_clip
import pytest
import torch
from clip_benchmark.datasets.builder import build_dataset
from clip_benchmark.metrics import zeroshot_classification, zeroshot_retrieval

from mispair.cli import main
from mispair.core import metrics, seeds
from mispair.evaluation.sets import files_of_images
from mispair.pairs.corruption.draws import Draws
from mispair.pairs.scenes.scene_captions import write_caption
from mispair.pairs.scenes.scene_images import render
from mispair.pairs.scenes.scenes import training_scene
from mispair.pairs.shards.shard_writer import add_member
from mispair.towers.dag import SHIPPED
from tests.evaluation.encoded import step

POINT = 0.001
"""A tenth of a percentage point."""


def run(name: str, **files: object) -> None:
    """Run a step, and expect no fault."""
    assert step(name, **files) == 0


def measured(evaluation_set: Path, protocol: str, folder: Path) -> dict[str, float]:
    """Encode a set and evaluate the shipped towers on it with the real steps."""
    own = folder / "features" / evaluation_set.name
    found = {"images": own / "images.safetensors",
             "prompts": own / f"prompts~{protocol}.safetensors"}  # fmt: skip
    towers = [SHIPPED["shipped"] / "open_clip_config.json"]
    images = files_of_images(evaluation_set, "test")
    run("encode-evaluation", evaluation_set=images, split="test", towers=towers, workers=0,
        evaluation_features=found["images"])  # fmt: skip
    run("encode-prompts", evaluation_set=[evaluation_set / "test"], protocol=protocol,
        protocol_files=[], towers=towers, prompts=found["prompts"])  # fmt: skip
    projection, zeroshot = folder / "projection.safetensors", folder / "zeroshot.json"
    run("extract-projection", towers=towers, projection=projection)
    answers = folder / "answers.safetensors"
    run("evaluate-zeroshot", projection=projection, zeroshot=zeroshot, answers=answers, **found)
    rows, _ = metrics.read_metrics(zeroshot)
    return {row["metric"]: row["value"] for row in rows if "classname" not in row}


def theirs(evaluation_set: Path, task: str) -> tuple:
    """Return model, tokenizer and batches as CLIP_benchmark's command line makes them."""
    model, _, transform = open_clip.create_model_and_transforms(f"local-dir:{SHIPPED['shipped']}")
    tokenizer = open_clip.get_tokenizer(f"local-dir:{SHIPPED['shipped']}")
    dataset = build_dataset(
        f"wds/{evaluation_set.name}",
        **{"root": str(evaluation_set), "transform": transform, "split": "test", "task": task},
    )
    batches = torch.utils.data.DataLoader(dataset.batched(32), batch_size=None)
    return model.eval(), tokenizer, dataset, batches


@contextmanager
def leaving_shards_open() -> Iterator[None]:
    """Ignore that webdataset leaves its shards to the garbage collector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


def test_accuracy_is_that_of_clip_benchmark(tmp_path, monkeypatch) -> None:
    # Its accuracy takes an array of one entry for a number, which NumPy allows no more.
    monkeypatch.setattr(zeroshot_classification, "float", lambda one: one.item(), raising=False)
    folder = tmp_path / "scenes-shape"
    made = ["--name", folder.name, "--images", "150", "--train-images", "10"]
    assert main(["make-evaluation-set", *made, "--evaluation-set", str(folder)]) == 0
    model, tokenizer, dataset, batches = theirs(folder, "zeroshot_classification")
    with leaving_shards_open():
        expected = zeroshot_classification.evaluate(
            model, batches, tokenizer, dataset.classes, dataset.templates, "cpu", amp=False
        )
    found = measured(folder, "clip_benchmark", tmp_path)
    assert expected.keys() == {"acc1", "acc5", "mean_per_class_recall"}
    for metric, value in expected.items():
        assert found[metric] == pytest.approx(value, abs=POINT), metric
    assert found["acc1"] > 0.5  # towers that know the classes: no two ways of guessing are equal


def test_retrieval_recalls_are_those_of_clip_benchmark(tmp_path: Path) -> None:
    folder = tmp_path / "captioned-scenes"
    write_captioned_scenes(folder, 120)
    model, tokenizer, _, batches = theirs(folder, "zeroshot_retrieval")
    with leaving_shards_open():
        expected = zeroshot_retrieval.evaluate(
            model, batches, tokenizer, "cpu", amp=False, recall_k_list=[1, 5, 10]
        )
    found = measured(folder, "captions", tmp_path)
    assert len(expected) == 6
    for metric, value in expected.items():
        assert found[metric.replace("_retrieval", "")] == pytest.approx(value, abs=POINT), metric
    assert 0.1 < found["image_recall@1"] < found["text_recall@1"] < 1


def write_captioned_scenes(folder: Path, images: int) -> None:
    """Write pictures with two to five captions each, all different, in two shards."""
    (folder / "test").mkdir(parents=True)
    (folder / "dataset_type.txt").write_text("retrieval")
    (folder / "test" / "nshards.txt").write_text("2")
    used: set[str] = set()
    for shard in range(2):
        with tarfile.open(folder / "test" / f"{shard}.tar", "w") as tar:
            for number in range(shard, images, 2):
                draws = Draws(seeds.generator("captioned scenes", number))
                scene = training_scene(draws)
                told = [write_caption(scene.objects, scene.whole, draws) for _ in range(20)]
                new = [text for text in dict.fromkeys(told) if text not in used]
                chosen = new[: 2 + number % 4]
                used.update(chosen)
                picture = io.BytesIO()
                render(scene.objects, scene.whole, draws, 64).save(picture, "PNG")
                add_member(tar, f"s{number:04d}.png", picture.getvalue())
                add_member(tar, f"s{number:04d}.txt", "\n".join(chosen).encode())
