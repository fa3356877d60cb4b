"""The logit scale: slopes against autograd, convergence both ways, the cosine gap by a loop."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mispair.towers.features import PairedFeatures
from mispair.towers.finetuning import losses as finetuning_losses
from mispair.towers.finetuning import projection as towers
from mispair.towers.finetuning.batches import batch_order
from mispair.towers.finetuning.losses import Cosines, infonce, measure, scale_slopes
from mispair.towers.projection_measures import converged
from tests.towers.test_projection import QUICK, _features, _model


def _loss(cosines, log_scale):
    logits, target = log_scale.exp() * cosines, torch.arange(len(cosines))
    entropy = torch.nn.functional.cross_entropy
    return (entropy(logits, target) + entropy(logits.T, target)) / 2


@pytest.mark.parametrize("scale", [0.5, 5.0, 60.0])
def test_slopes_by_the_log_scale_are_those_of_autograd(scale):
    draw = torch.Generator().manual_seed(0)
    cosines = torch.rand(2, 9, 9, generator=draw, dtype=torch.float64) * 2 - 1
    logs = torch.full((2,), float(np.log(scale)), dtype=torch.float64)
    first, second = scale_slopes(cosines, logs)
    gradient = infonce(cosines.clone(), logs.exp()[:, None, None])[2]
    for one in range(2):
        log = logs[one].clone().requires_grad_()
        (slope,) = torch.autograd.grad(_loss(cosines[one], log), log, create_graph=True)
        (curvature,) = torch.autograd.grad(slope, log)
        assert first[one].item() == pytest.approx(slope.item(), rel=1e-10, abs=1e-14)
        assert gradient[one].item() == pytest.approx(slope.item(), rel=1e-10, abs=1e-14)
        assert second[one].item() == pytest.approx(curvature.item(), rel=1e-9, abs=1e-13)


def _noisy():
    """Return features whose pairs are wrong for half of the rows, so that no scale is too large."""
    features = _features()
    rows = features.text_rows[0].copy()
    rows[:150] = np.roll(rows[:150], 1)
    keeps = np.arange(300)[None] >= 150
    arrays = (features.image_features, features.text_features)
    return PairedFeatures(*arrays, rows[None], keeps_caption=keeps)


def test_a_solved_scale_is_at_the_minimum_of_the_loss_and_a_slow_one_is_not():
    features, model = _noisy(), _model(scale=4.0)
    initial = towers.starting_point(model, [3, 8])
    long = {**QUICK, "epochs": 30}

    def tune(**options):
        return towers.finetune(
            features, initial, towers.FinetuningLength(**long, **options), [3, 8]
        )

    solved, slow = tune(logit_scale="solved"), tune(logit_scale="free", logit_scale_lr=1e-6)
    assert converged(solved.drift, solved.newton_step).all()
    # It hardly moves, and is nowhere near the minimum of the loss.
    assert (slow.drift < 1e-3).all()
    assert not converged(slow.drift, slow.newton_step).any()
    assert not converged(np.array([2e-2]), np.zeros(1)).any()
    assert not converged(np.zeros(1), np.array([np.nan])).any()

    # The minimum by a search over scales, on the batches of the first epoch.
    order = batch_order(300, 9, 32, [3, 8], 0).reshape(9, 2, 32)
    for one in range(2):
        image, text = solved.projections.image[one], solved.projections.text[one]
        cosines = []
        for chosen in order[:, one]:
            x = torch.tensor(features.image_features[chosen] @ image)
            y = torch.tensor(features.text_features[features.text_rows[0, chosen]] @ text)
            normalize = torch.nn.functional.normalize
            cosines.append(normalize(x, dim=1) @ normalize(y, dim=1).T)
        losses = [
            np.mean([_loss(each, torch.tensor(log)).item() for each in cosines])
            for log in (solved.projections.logit_scale[one] + np.array([-0.05, 0, 0.05]))
        ]
        assert losses[1] < min(losses[0], losses[2])


def _cosines(features):
    """Return the cosines of the pairs by `_model`, and its scale."""
    model = _model()
    weights = [torch.tensor(model.image), torch.tensor(model.text)]
    sources = [torch.tensor(features.image_features), torch.tensor(features.text_features)]
    return Cosines(sources, weights, features, 32, [5]), torch.tensor(model.logit_scale)


def test_the_gap_is_that_of_pairs_that_keep_their_caption():
    features, model = _noisy(), _model()
    found = measure(*_cosines(features))
    gaps = []
    for chosen in batch_order(300, 9, 32, [5], 0):
        x = features.image_features[chosen] @ model.image[0]
        y = features.text_features[features.text_rows[0, chosen]] @ model.text[0]
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        y /= np.linalg.norm(y, axis=1, keepdims=True)
        for i, pair in enumerate(chosen):
            if pair >= 150:
                others = [x[i] @ y[j] for j in range(32) if j != i]
                gaps.append(x[i] @ y[i] - np.mean(others))
    assert found.gap.item() == pytest.approx(np.mean(gaps), rel=1e-9)
    none = replace(features, keeps_caption=np.zeros((1, 300), bool))
    assert np.isnan(measure(*_cosines(none)).gap.item())


def test_cosines_that_are_kept_are_those_that_are_computed_again(monkeypatch):
    cosines, log = _cosines(_noisy())
    logs = [log + change for change in (0.0, 1.0)]
    kept = [measure(cosines, log) for log in logs]
    assert len(cosines.kept) == 9
    monkeypatch.setattr(finetuning_losses, "KEPT_BYTES", 0)
    for log, found in zip(logs, kept, strict=True):
        again = measure(_cosines(_noisy())[0], log)
        assert torch.equal(again.first, found.first)
        assert torch.equal(again.second, found.second)
    assert not torch.equal(kept[0].first, kept[1].first)


def test_slopes_are_those_of_the_weighted_loss():
    features, model = _noisy(), _model()
    weights = np.random.default_rng(3).random((1, 300)).astype(np.float32)
    cosines, log = _cosines(replace(features, weights=weights))
    found = measure(cosines, log)

    def loss(at):
        total = 0.0
        for chosen in batch_order(300, 9, 32, [5], 0):
            x = torch.tensor(features.image_features[chosen] @ model.image[0])
            y = torch.tensor(features.text_features[features.text_rows[0, chosen]] @ model.text[0])
            normalize = torch.nn.functional.normalize
            logits = at.exp() * normalize(x, dim=1) @ normalize(y, dim=1).T
            each = -(logits.log_softmax(0) + logits.log_softmax(1)).diagonal() / 2
            shares = torch.tensor(weights[0, chosen])
            total = total + (each * shares).sum() / shares.sum() / 9
        return total

    first = torch.autograd.functional.jacobian(loss, log[0])
    second = torch.autograd.functional.hessian(loss, log[0])
    assert found.first.item() == pytest.approx(first.item(), rel=1e-5)
    assert found.second.item() == pytest.approx(second.item(), rel=1e-5)


def test_a_seed_is_trained_on_its_own_draw_of_pairs_and_captions():
    features, model = _features(400), _model()
    draw = np.random.default_rng(2)
    images = np.stack([np.sort(draw.permutation(400)[:200]) for _ in range(2)])
    texts = np.stack([draw.permutation(features.text_rows[0, rows]) for rows in images])
    training = towers.FinetuningLength(**QUICK)
    arrays = (features.image_features, features.text_features)
    both = PairedFeatures(*arrays, texts, image_rows=images)
    initial = towers.starting_point(model, [11, 5])
    stacked = towers.finetune(both, initial, training, [11, 5])
    for one, seed in enumerate([11, 5]):
        alone = PairedFeatures(
            features.image_features[images[one]], features.text_features, texts[one : one + 1]
        )
        own = towers.finetune(alone, towers.starting_point(model, [seed]), training, [seed])
        np.testing.assert_allclose(own.loss[0], stacked.loss[one], rtol=1e-9)
        np.testing.assert_allclose(own.projections.text[0], stacked.projections.text[one])
    with pytest.raises(ValueError, match="2 draws of pairs do not fit 3 seeds"):
        towers.finetune(both, towers.starting_point(model, [1, 2, 3]), training, [1, 2, 3])
