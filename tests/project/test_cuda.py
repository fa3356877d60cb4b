"""Array functions on a device that behaves as CUDA does, without a GPU (`tests.fake_cuda`)."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from PIL import Image

from mispair.core.devices import upload
from mispair.core.training import AdamW, TrainingPlan, train
from mispair.pairs.neighbours import similarity
from mispair.sufficiency import encoders, heads, measures
from mispair.sufficiency.settings import ARMS, OF_ENCODERS, TASKS, Arm, Task
from mispair.sufficiency.trees import draw_skeletons, trees_at
from mispair.towers.dag import SHIPPED
from mispair.towers.encoding import Encoder, Growing, encode_images, encode_texts
from mispair.towers.encoding_record import EncodingRecord
from mispair.towers.finetuning import projection
from mispair.towers.finetuning.finetuning_settings import FinetuningLength
from mispair.towers.loading import Towers, load_towers
from tests.fake_cuda import FakeCuda
from tests.pairs.test_similarity import found, vectors
from tests.sufficiency.test_sufficiency_measures import SIZE
from tests.towers.test_projection import QUICK
from tests.towers.test_projection import _model as small_model
from tests.towers.test_temperature import _noisy as noisy_features


@pytest.fixture
def cuda() -> Iterator[FakeCuda]:
    with FakeCuda().installed() as device:
        yield device


def assert_close(on_device: Any, on_cpu: Any) -> None:
    """Compare nested results: the same keys, floating-point numbers equal to rounding."""
    if isinstance(on_cpu, dict):
        assert on_device.keys() == on_cpu.keys()
        for key in on_cpu:
            assert_close(on_device[key], on_cpu[key])
    elif isinstance(on_cpu, list):
        for one, other in zip(on_device, on_cpu, strict=True):
            assert_close(one, other)
    elif isinstance(on_cpu, float):
        assert on_device == pytest.approx(on_cpu, rel=2e-2, abs=2e-2, nan_ok=True)
    else:
        assert on_device == on_cpu


# Fine-tuning --------------------------------------------------------------------------------------


def tuned(device: str = "cpu", dtype: type = np.float32, **options: Any) -> projection.Tuned:
    """Fine-tune two seeds on features with swapped captions."""
    features = noisy_features()
    features = replace(
        features,
        image_features=features.image_features.astype(dtype),
        text_features=features.text_features.astype(dtype),
    )
    model = small_model(scale=4.0, dtype=np.float32)
    initial = projection.starting_point(model, [3, 8])
    training = FinetuningLength(**QUICK | {"epochs": 2} | options)
    return projection.finetune_in_portions(features, initial, training, [3, 8], device)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("scale", ["frozen", "free", "solved"])
def test_fine_tuning(scale: str, dtype: type, cuda: FakeCuda) -> None:
    on_both = (tuned(device, dtype, logit_scale=scale)[1:] for device in ("cuda", "cpu"))
    for one, other in zip(*on_both, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("free", [80 << 30, 60_000], ids=["features there", "features here"])
def test_no_step_of_fine_tuning_waits_for_the_gpu(free: int, cuda: FakeCuda) -> None:
    def waits(batch_size: int) -> int:
        cuda.waits.clear()
        tuned("cuda", batch_size=batch_size, logit_scale="solved", epochs=1, warmup_epochs=0)
        return cuda.waits.total()

    with (
        mock.patch("torch.cuda.mem_get_info", return_value=(free, free)),
        mock.patch.object(projection, "bytes_of_seed", return_value=1),
    ):
        assert waits(25) == waits(50)  # twice as many steps


@pytest.mark.parametrize("limit", [1, 2])
def test_fine_tuning_splits_the_seeds_that_memory_does_not_hold(limit: int) -> None:
    whole, finetune = tuned(), projection.finetune

    def limited(*args: Any) -> projection.Tuned:
        if len(args[3]) > limit:
            raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`")
        return finetune(*args)

    with mock.patch.object(projection, "finetune", limited):
        split = tuned()
    for one, other in zip(split[1:], whole[1:], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(split.projections.image, whole.projections.image)


def test_fine_tuning_takes_as_many_seeds_as_memory_holds() -> None:
    whole = tuned()
    room = int(1.5 * projection.bytes_of_seed(int(QUICK["batch_size"]), 12 * (24 + 16)) / 0.8)
    with (
        mock.patch.object(projection, "free_memory", return_value=room),
        mock.patch.object(projection, "finetune", wraps=projection.finetune) as finetune,
    ):
        np.testing.assert_array_equal(tuned().loss, whole.loss)
    assert [list(call.args[3]) for call in finetune.call_args_list] == [[3], [8]]


# Similar captions ---------------------------------------------------------------------------------


def test_similarity(cuda: FakeCuda) -> None:
    rows = vectors(300, 12)
    rows[7], rows[30:34] = 0, rows[29]
    with mock.patch.dict(similarity._LARGEST_SIDE, cuda=64):
        assert found(rows, 5, device="cuda") == found(rows, 5)
        assert cuda.waits["to the device"] == 1  # the rows, once


# Sufficiency --------------------------------------------------------------------------------------


@pytest.mark.parametrize("candidates", [None, 4])
@pytest.mark.parametrize("weight", [0.0, 1e-3])
def test_training_of_encoders(candidates: int | None, weight: float, cuda: FakeCuda) -> None:
    def losses(device: str) -> torch.Tensor:
        model = encoders.start_towers(SIZE, 8, 2, seed=1).to(device)
        trees = trees_at(draw_skeletons(1, SIZE), 0.1, device)
        loss = encoders.loss_of_step(
            model, trees, batch_size=16, candidates=candidates, seed=1, guidance_weight=weight
        )
        return train(model, loss, TrainingPlan(6, 1e-2, 1e-4, 1e-4, 1.0)).cpu()

    torch.testing.assert_close(losses("cuda"), losses("cpu"))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("arm", ARMS)
def test_training_of_heads(task: Task, arm: Arm, cuda: FakeCuda) -> None:
    def losses(device: str) -> torch.Tensor:
        model = encoders.start_towers(SIZE, 8, 1, seed=0).to(device).requires_grad_(False)
        head = heads.start_head(task, arm, SIZE, 8, 1, seed=0).to(device)
        trees = trees_at(draw_skeletons(1, SIZE), 0.1, device)
        loss = heads.loss_of_step(
            task, arm, head, trees, model if arm in OF_ENCODERS else None,
            batch_size=16, sigma=1.0, seed=0,
        )  # fmt: skip
        return train(head, loss, TrainingPlan(3, 1e-2, 1e-4, 1e-4, 1.0)).cpu()

    torch.testing.assert_close(losses("cuda"), losses("cpu"))


MEASURES: dict[str, Callable[..., list[dict]]] = {
    "contrastive": lambda setting, towers: measures.contrastive(setting, towers, 40, [2, 8]),
    "classification": lambda setting, towers: measures.classification(setting, towers, 40, [1, 3]),
    "bayes": lambda setting, towers: measures.bayes_risks(setting, 40, 4, 1.0),
}


@pytest.mark.parametrize("precision", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", MEASURES)
def test_measures_of_sufficiency(name: str, precision: torch.dtype, cuda: FakeCuda) -> None:
    def rows(device: str) -> list[dict]:
        model = encoders.start_towers(SIZE, 8, 1, 0).to(device).requires_grad_(False)
        setting = measures.Setting(draw_skeletons(1, SIZE), 0.2, 0, device, precision)
        return MEASURES[name](setting, {"standard": model})

    assert_close({"rows": rows("cuda")}, {"rows": rows("cpu")})


@pytest.mark.parametrize("task", TASKS)
def test_transfer_of_heads(task: Task, cuda: FakeCuda) -> None:
    def rows(device: str) -> list[dict]:
        model = encoders.start_towers(SIZE, 8, 1, 0).to(device).requires_grad_(False)
        setting = measures.Setting(draw_skeletons(1, SIZE), 0.2, 0, device, torch.float32)
        arms: Any = {
            arm: (heads.start_head(task, arm, SIZE, 8, 1, 0).to(device).requires_grad_(False),
                  model if arm == "frozen" else None)
            for arm in ("frozen", "oracle")
        }  # fmt: skip
        return measures.transfer(setting, task, arms, 40, 1.0)

    assert_close({"rows": rows("cuda")}, {"rows": rows("cpu")})


# Encoding -----------------------------------------------------------------------------------------


TEXTS = ["a red ring", "two blue squares", "a ring"]
PICTURES = [Image.new("RGB", (40 + 9 * n, 40), (80 * n, 90, 10)) for n in range(3)]


def on_the_device(towers: Towers) -> Towers:
    for tower in (towers.image_tower, towers.text_tower):
        tower.to("cuda")
    return replace(towers, image_projection=towers.image_projection.to("cuda"))


def test_encoding() -> None:
    towers = load_towers(SHIPPED["shipped"])
    on_cpu = encode_images(towers, PICTURES, 2), encode_texts(towers, TEXTS, 2)
    with FakeCuda().installed():
        there = on_the_device(towers)
        on_device = encode_images(there, PICTURES, 2), encode_texts(there, TEXTS, 2)
    for one, other in zip(on_device, on_cpu, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_no_batch_of_an_encoder_waits_for_the_gpu(cuda: FakeCuda) -> None:
    encoder = Encoder(on_the_device(load_towers(SHIPPED["shipped"])), 2)

    def waits(repeats: int) -> dict[str, int]:
        cuda.waits.clear()
        texts, record = TEXTS * repeats, EncodingRecord("cuda")
        encoder.encode_texts(texts, texts, record)
        part = Growing(encoder.image, texts, len(texts), None)
        pixels = encoder.form([encoder.towers.preprocess(one)[None] for one in PICTURES])
        for _ in range(repeats):
            part.add(encoder.image(pixels))
        part.on_host()
        return dict(cuda.waits)

    assert waits(2) == waits(6)  # three times as many batches


# The device that is none --------------------------------------------------------------------------


def test_the_device_refuses_what_cuda_refuses(cuda: FakeCuda) -> None:
    there, here = torch.ones(3, device="cuda"), torch.ones(3)
    refused: list[Callable[[], object]] = [
        lambda: there + here,
        lambda: here[there.long()],
        lambda: here.add_(there),
        there.numpy,
        lambda: torch.rand(3, device="cuda", generator=torch.Generator()),
        lambda: AdamW([there], 0.0).step([torch.ones(3, dtype=torch.float64, device="cuda")], 1.0),
    ]
    for act in refused:
        with pytest.raises((RuntimeError, TypeError)):
            act()
    assert cuda.waits.total() == 0
    assert there.device.type == "cuda"
    waiting: list[Callable[[], object]] = [
        there.tolist, there.cpu, there[0].item, there.nonzero, lambda: there[there > 0],
        lambda: bool(there.any()), lambda: here.to("cuda"),
    ]  # fmt: skip
    for number, act in enumerate(waiting, start=1):
        act()
        assert cuda.waits.total() == number
    upload(here, "cuda")
    assert cuda.waits.total() == len(waiting)
    (there + 1).sum()
    assert (cuda.allocated, cuda.peak >= 24) == (12, True)
