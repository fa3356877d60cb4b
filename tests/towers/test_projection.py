"""Stacked fine-tuning by hand-written gradients against plain autograd, one seed at a time."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mispair.towers.features import PairedFeatures
from mispair.towers.finetuning import projection as towers
from mispair.towers.finetuning.batches import batch_order
from mispair.towers.finetuning.losses import infonce

QUICK = {"epochs": 4, "batch_size": 32, "lr": 5e-3}


def _features(n=300, d_image=24, d_text=16, captions=200, seed=0, dtype=np.float64):
    draw = np.random.default_rng(seed)
    common = draw.standard_normal((captions, 8))
    rows = draw.integers(0, captions, n)
    image = common[rows] @ draw.standard_normal((8, d_image)) + draw.standard_normal((n, d_image))
    text = common @ draw.standard_normal((8, d_text)) + draw.standard_normal((captions, d_text))
    return PairedFeatures(image.astype(dtype), text.astype(dtype), rows[None])


def _model(d_image=24, d_text=16, e=12, seed=1, scale=2.0, dtype=np.float64):
    draw = np.random.default_rng(seed)
    return towers.Projections(
        (draw.standard_normal((1, d_image, e)) * d_image**-0.5).astype(dtype),
        (draw.standard_normal((1, d_text, e)) * d_text**-0.5).astype(dtype),
        np.full(1, scale, dtype),
    )


def _twin(features, model, training, seed, crops=None):
    """Train one seed with modules, autograd and torch's own AdamW and loss.

    With crops, a list of image features, each epoch takes the next one.
    """
    crops = crops or [features.image_features]
    image = torch.nn.Linear(model.image.shape[1], model.image.shape[2], bias=False).double()
    text = torch.nn.Linear(model.text.shape[1], model.text.shape[2], bias=False).double()
    scale = torch.nn.Parameter(torch.tensor(model.logit_scale[0]))
    with torch.no_grad():
        image.weight.copy_(torch.tensor(model.image[0].T))
        text.weight.copy_(torch.tensor(model.text[0].T))
    groups = [{"params": [image.weight, text.weight], "weight_decay": training.weight_decay}]
    peaks = [training.lr]
    if training.logit_scale == "free":
        groups.append({"params": [scale], "weight_decay": 0.0})
        peaks.append(training.logit_scale_lr)
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.98))
    batch = training.batch_size
    steps = len(features.image_features) // batch
    losses, step = [], 0
    for epoch in range(training.epochs):
        order = batch_order(len(features.image_features), steps, batch, [seed], epoch)
        for chosen in order:
            for group, peak in zip(optimiser.param_groups, peaks, strict=True):
                group["lr"] = _learning_rate(training, step, steps) * peak / training.lr
            x = torch.tensor(crops[epoch % len(crops)][chosen])
            y = torch.tensor(features.text_features[features.text_rows[0, chosen]])
            shares = torch.ones(batch, dtype=torch.double)
            if features.weights is not None:
                shares = torch.tensor(features.weights[0, chosen], dtype=torch.double)
            shares = shares / shares.sum()
            f = torch.nn.functional.normalize(image(x), dim=-1)
            h = torch.nn.functional.normalize(text(y), dim=-1)
            logits, target = scale.exp() * f @ h.T, torch.arange(batch)
            each = [
                torch.nn.functional.cross_entropy(side, target, reduction="none")
                for side in (logits, logits.T)
            ]
            loss = shares @ (each[0] + each[1]) / 2
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            with torch.no_grad():
                scale.clamp_(0, 4.6052)
            losses.append(loss.item())
            step += 1
    return image.weight.detach().numpy().T, text.weight.detach().numpy().T, scale.item(), losses


def _learning_rate(training, step, per_epoch):
    warm, total = training.warmup_epochs * per_epoch, training.epochs * per_epoch
    if step < warm:
        return training.warmup_lr + (training.lr - training.warmup_lr) * step / (warm - 1)
    half = 0.5 * (1 + np.cos(np.pi * (step - warm) / (total - warm)))
    return training.final_lr + (training.lr - training.final_lr) * half


@pytest.mark.parametrize("options", [
    {},
    {"logit_scale": "free", "weight_decay": 0.0},
    {"logit_scale": "free", "warmup_epochs": 2, "lr": 2e-2},
])  # fmt: skip
def test_every_seed_of_a_stack_equals_the_plain_twin(options):
    features, model = _features(300), _model()
    training = towers.FinetuningLength(**{**QUICK, **options})
    seeds = [11, 5]
    initial = towers.starting_point(model, seeds)
    tuned, loss, scales, *_ = towers.finetune(features, initial, training, seeds)
    for number, seed in enumerate(seeds):
        image, text, scale, losses = _twin(features, model, training, seed)
        np.testing.assert_allclose(tuned.image[number], image, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(tuned.text[number], text, rtol=1e-7, atol=1e-9)
        assert tuned.logit_scale[number] == pytest.approx(scale, rel=1e-9)
        np.testing.assert_allclose(loss[number], losses, rtol=1e-9)
        assert scales[number, -1] == tuned.logit_scale[number]
        for before, after in ((model.image[0], image), (model.text[0], text)):
            assert np.linalg.norm(after - before) > 0.1 * np.linalg.norm(before)
    assert np.abs(tuned.image[0] - tuned.image[1]).max() > 1e-3
    if training.logit_scale == "frozen":
        np.testing.assert_array_equal(tuned.logit_scale, model.logit_scale[0])
    else:
        assert (np.abs(tuned.logit_scale - model.logit_scale) > 1e-3).all()


def test_weighted_pairs_train_as_the_plain_twin_weighs_them():
    features, model = _features(120), _model()
    draw = np.random.default_rng(4)
    weights = np.where(draw.random((1, 120)) < 0.3, 0, draw.random((1, 120))).astype(np.float32)
    weighted = replace(features, weights=weights)
    training = towers.FinetuningLength(**{**QUICK, "batch_size": 8, "epochs": 2})
    initial = towers.starting_point(model, [11])
    tuned, losses, *_ = towers.finetune(weighted, initial, training, [11])
    image, text, _, expected = _twin(weighted, model, training, 11)
    np.testing.assert_allclose(tuned.image[0], image, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(tuned.text[0], text, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(losses[0], expected, rtol=1e-6)
    equal = replace(features, weights=np.full((1, 120), 0.5, np.float32))
    same = towers.finetune(equal, initial, training, [11]).projections.image
    plain = towers.finetune(features, initial, training, [11]).projections.image
    np.testing.assert_allclose(same, plain, rtol=1e-6)
    assert np.abs(tuned.image - plain).max() > 1e-3


@pytest.mark.parametrize("random_norm", [None, 1.0])
def test_a_seed_alone_equals_the_seed_in_a_stack(random_norm):
    features, model = _features(dtype=np.float32), _model(dtype=np.float32)
    training = towers.FinetuningLength(**QUICK)

    def tune(seeds):
        initial = towers.starting_point(model, seeds, random_norm)
        return towers.finetune(features, initial, training, seeds)[:2]

    stacked, losses = tune([3, 8, 1])
    assert losses.dtype == stacked.image.dtype == np.float32
    for number, seed in enumerate([3, 8, 1]):
        alone, own = tune([seed])
        np.testing.assert_allclose(alone.image[0], stacked.image[number], atol=1e-5)
        np.testing.assert_allclose(alone.text[0], stacked.text[number], atol=1e-5)
        np.testing.assert_allclose(own[0], losses[number], atol=1e-5)


@pytest.mark.parametrize("crops", [2, 3])
def test_epochs_see_the_crops_of_an_image_in_turn(crops):
    plain, model = _features(), _model()
    draw = np.random.default_rng(5)
    seen = [plain.image_features + draw.standard_normal((300, 24)) for _ in range(crops)]
    stored = np.stack(seen, axis=1).reshape(300 * crops, 24)
    features = PairedFeatures(stored, plain.text_features, plain.text_rows, crops)
    training = towers.FinetuningLength(**{**QUICK, "epochs": 2 * crops + 1})
    initial = towers.starting_point(model, [11, 5])
    tuned, loss, *_ = towers.finetune(features, initial, training, [11, 5])
    for number, seed in enumerate([11, 5]):
        image, text, _, losses = _twin(plain, model, training, seed, seen)
        np.testing.assert_allclose(tuned.image[number], image, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(tuned.text[number], text, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(loss[number], losses, rtol=1e-9)
    # The same crop several times is no crop at all, to the bit.
    images = np.repeat(plain.image_features, crops, axis=0)
    repeated = PairedFeatures(images, plain.text_features, plain.text_rows, crops)
    one, other = (
        towers.finetune(each, initial, training, [11, 5]).tensors() for each in (repeated, plain)
    )
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def test_half_precision_trains_as_its_widened_values_do():
    plain, model = _features(dtype=np.float16), _model(dtype=np.float32)
    wide = [array.astype(np.float32) for array in (plain.image_features, plain.text_features)]
    initial = towers.starting_point(model, [0, 1])
    training = towers.FinetuningLength(**QUICK)
    half, loss, *_ = towers.finetune(plain, initial, training, [0, 1])
    full, other, *_ = towers.finetune(
        PairedFeatures(*wide, plain.text_rows), initial, training, [0, 1]
    )
    assert half.image.dtype == loss.dtype == np.float32
    np.testing.assert_array_equal(half.image, full.image)
    np.testing.assert_array_equal(half.text, full.text)
    np.testing.assert_array_equal(loss, other)


def test_infonce_survives_the_largest_scale():
    # At a scale of 100 a pair's probability underflows in single precision; its log does not.
    cosines = torch.tensor([[[-1.0, 1.0], [0.5, -1.0]]])
    exact = torch.nn.functional.cross_entropy
    target = torch.arange(2)
    logits = 100 * cosines[0].double()
    loss, gradient, _ = infonce(cosines.clone(), torch.full((1, 1, 1), 100.0))
    expected = (exact(logits, target) + exact(logits.T, target)) / 2
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert torch.isfinite(gradient).all()


def test_logit_scale_is_clamped():
    features, model = _features(), _model(scale=4.6)
    training = towers.FinetuningLength(**{**QUICK, "lr": 0.05}, logit_scale="free")
    # Pairs that can be told apart push the scale up and up.
    easy = PairedFeatures(
        features.text_features[:96], features.text_features[:96], np.arange(96)[None]
    )
    model = towers.Projections(model.text, model.text, model.logit_scale)
    tuned, *_ = towers.finetune(easy, model, training, [0])
    assert tuned.logit_scale[0] <= towers.MAX_LOGIT_SCALE
    with_larger = towers.Projections(model.image, model.text, np.full(1, 9.0))
    tuned, *_ = towers.finetune(easy, with_larger, towers.FinetuningLength(**QUICK), [0])
    assert tuned.logit_scale[0] == towers.MAX_LOGIT_SCALE


def test_batches_hold_every_pair_once_and_differ_by_seed_and_epoch():
    order = batch_order(100, 6, 16, [4, 9], 0).reshape(6, 2, 16)
    for number in range(2):
        assert len(np.unique(order[:, number])) == 96
    assert (order[:, 0] != order[:, 1]).any()
    assert (batch_order(100, 6, 16, [4], 1) != order[:, 0]).any()
    np.testing.assert_array_equal(batch_order(100, 6, 16, [4], 0), order[:, 0])


def test_new_projections_have_the_scale_of_open_clip():
    model = _model(400, 100, 300)
    new = towers.starting_point(model, [0, 1], random_norm=1.0)
    assert new.image.std() == pytest.approx(400**-0.5, rel=0.01)
    assert new.text.std() == pytest.approx(100**-0.5, rel=0.01)
    assert abs(np.corrcoef(new.image[0].ravel(), new.image[1].ravel())[0, 1]) < 0.02
    np.testing.assert_array_equal(new.logit_scale, [2.0, 2.0])
    # The same numbers at another norm, and a scale of their own.
    small = towers.starting_point(model, [0, 1], random_norm=0.1, logit_scale=20.0)
    np.testing.assert_allclose(small.image, 0.1 * new.image, rtol=1e-12)
    np.testing.assert_allclose(small.logit_scale, np.log(20.0))


def test_what_is_not_finite_stops_with_the_step():
    # Cosines are bounded, so an overflow has to come from the weights: a decay that flips them
    # and makes them grow a thousandfold each step.
    features = _features(dtype=np.float32)
    initial = _model(dtype=np.float32)
    training = towers.FinetuningLength(
        epochs=4, batch_size=32, warmup_epochs=0, lr=1.0, final_lr=1.0, weight_decay=1e3
    )
    with pytest.raises(FloatingPointError, match=r"loss of step (\d+)") as caught:
        towers.finetune(features, initial, training, [0])
    step = int(str(caught.value).split("step ")[1].split()[0])
    assert 8 <= step <= 14
    with pytest.raises(ValueError, match="300 pairs make no whole batch of batch_size 999"):
        towers.finetune(features, initial, towers.FinetuningLength(batch_size=999), [0])
    features.image_features[:] = np.nan
    with pytest.raises(FloatingPointError, match="loss of step 0 "):
        towers.finetune(features, initial, towers.FinetuningLength(batch_size=32), [0])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_cuda_trains_as_the_cpu_does():
    features, model = _features(), _model()
    training = towers.FinetuningLength(**QUICK, logit_scale="free")
    initial = towers.starting_point(model, [0, 1])
    here, loss, *_ = towers.finetune(features, initial, training, [0, 1])
    there, other, *_ = towers.finetune(features, initial, training, [0, 1], "cuda")
    np.testing.assert_allclose(there.image, here.image, atol=1e-8)
    np.testing.assert_allclose(other, loss, atol=1e-8)
