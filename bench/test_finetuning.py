"""The bench of fine-tuning measures what it says, at sizes that take a moment."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from bench import finetuning
from mispair.towers.finetuning import projection
from mispair.towers.finetuning.batches import batch_order
from mispair.towers.finetuning.finetuning_settings import FinetuningLength

SIZES = finetuning.Sizes(pairs=200, image=24, text=16, neurons=12, rates=(0.0, 0.5), seeds=2)
TRAINING = FinetuningLength(epochs=2, batch_size=64)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    rate = finetuning._product_rate
    monkeypatch.setattr(finetuning, "_product_rate", lambda *shape: rate(*shape, seconds=0.01))


def test_the_sweep_is_counted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    finetune = projection.finetune
    monkeypatch.setattr(projection, "finetune", lambda *job: calls.append(job) or finetune(*job))
    monkeypatch.setattr(finetuning, "_towers_seconds", lambda model, pairs: 225.0)
    whole, step, share = finetuning.sweep(SIZES, TRAINING, "none")
    assert len(calls) == 2
    for features, start, training, seeds in calls:
        assert features.image_features.shape == (200, 24)
        assert len(start.image) == len(seeds) == 2
        assert training == TRAINING
    swapped = [np.mean(features.text_rows[0] != np.arange(200)) for features, *_ in calls]
    assert swapped == [0.0, 0.5]
    assert "for 24 steps" in whole[1]  # 3 batches, 2 epochs, 2 rates, 2 seeds
    assert whole[2].startswith("96 h")  # 24 steps of 64 pairs of 225 s
    assert "extrapolated" in whole[2]
    assert "by autograd" in step[2]
    assert re.search(r"[0-9]+ GFLOP/s, the largest of .* of a step.* by torch.matmul", share[2])
    assert share[3].endswith("%")


def test_a_pair_through_the_towers_takes_time() -> None:
    assert finetuning._towers_seconds("ViT-S-32-alt", 1) > 0


def test_steps_by_autograd_train_as_those_by_hand() -> None:
    features, start = finetuning._made_up(SIZES, torch.float32)
    assert finetuning._autograd_seconds(features, start, TRAINING) > 0
    order = batch_order(200, 1, 200, [0], 0)[0]
    x, y = (torch.as_tensor(a[order]) for a in (features.image_features, features.text_features))
    image, text = (torch.as_tensor(a[0]) for a in (start.image, start.text))
    expected = finetuning._infonce(x @ image, y @ text, np.exp(start.logit_scale[0]))
    _, losses, *_ = projection.finetune(features, start, replace(TRAINING, batch_size=200), [0, 1])
    assert losses[0, 0] == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda",
            marks=[
                pytest.mark.gpu,
                pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
            ],
        ),
    ],
)
def test_an_epoch_is_timed_with_features_on_the_device(device: str) -> None:
    what, seconds, rate, share = finetuning.on_a_gpu(SIZES, "as-run", TRAINING, device)
    assert "200 pairs of 24 + 16 numbers" in what
    assert float(seconds.split()[0]) >= 0
    assert "2 rates, 2 epochs each" in seconds
    assert "extrapolated" in seconds
    assert re.search(r"[0-9.]+ TFLOP/s, of [0-9.]+ by torch.matmul", rate)
    assert share.endswith("% of peak")


def test_operations_are_those_of_the_products() -> None:
    # Two embeddings, two gradients by weights, cosines and two gradients by embeddings.
    by_hand = 2 * (64 * 24 * 12 + 64 * 16 * 12) * 2 + 2 * 64 * 64 * 12 * 3
    assert SIZES.flops(64) == by_hand
    assert finetuning.Sizes().flops(256) == pytest.approx(872e6, rel=1e-3)
    assert finetuning.Sizes().steps(FinetuningLength(batch_size=256)) == 390 * 10 * 5 * 3
