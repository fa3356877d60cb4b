"""Small towers: their loss against NumPy, their batches, pictures and words."""

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from mispair.core.files import UserError
from mispair.core.training import TrainingPlan, train
from mispair.pretraining.data import (
    bags,
    held_out_rows,
    read_pictures,
    resized,
    texts_of,
    vocabulary,
)
from mispair.pretraining.measure import true_features
from mispair.pretraining.towers import (
    Batches,
    SmallTowers,
    TowerSizes,
    features_of_pictures,
    features_of_texts,
)

SIZES = TowerSizes(crop=8, channels=3, width=10, embedding=6, words=5)


def data(pairs: int = 40) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    pictures = draw.integers(0, 256, (pairs, 12, 12, 3), dtype=np.uint8)
    return pictures, draw.integers(0, 2, (pairs, 5), dtype=np.uint8)


def test_the_loss_is_that_of_the_formulas():
    towers, (pictures, words) = SmallTowers(SIZES, 3), data(7)
    draw = torch.Generator().manual_seed(0)
    crop = torch.from_numpy(pictures[:, :8, :8].transpose(0, 3, 1, 2).copy())
    with torch.no_grad():
        for values in towers.parameters():
            values += 0.1 * torch.randn(values.shape, generator=draw)
        measured = towers.loss(crop, torch.from_numpy(words)).item()
        towers.double()
    p = {name: values.detach() for name, values in towers.named_parameters()}

    def of(trunk: str, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        return p[f"{trunk}_trunk.{layer}.weight"], p[f"{trunk}_trunk.{layer}.bias"]

    image, text = (crop.double() - 128) / 64, torch.from_numpy(words).double()
    for layer in (0, 2):
        image = F.conv2d(image, *of("image", layer), stride=2, padding=1).relu()
        text = F.linear(text, *of("text", layer)).relu()
    image = F.linear(image.flatten(1), *of("image", 5)).relu()
    image = F.layer_norm(image, image.shape[1:], *of("image", 7)) @ p["image_projection"]
    text = F.layer_norm(text, text.shape[1:], *of("text", 4)) @ p["text_projection"]
    logits = p["log_scale"].exp() * F.normalize(image) @ F.normalize(text).T
    expected = sum(F.cross_entropy(table, torch.arange(7)) for table in (logits, logits.T))
    assert measured == pytest.approx(expected.item(), rel=1e-5)


def test_the_same_seed_gives_the_same_weights_and_another_others():
    weights = [torch.cat([v.flatten() for v in SmallTowers(SIZES, seed).parameters()])
               for seed in (0, 0, 1)]  # fmt: skip
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_an_epoch_has_every_pair_once_and_depends_on_the_step_alone():
    pictures, words = data(40)
    pictures[:, :, :, 0] = np.arange(40)[:, None, None]
    batches = Batches(pictures, words, 10, 8, 5)
    assert batches.per_epoch == 4
    seen = [batches.of_step(step)[0][:, 0, 0, 0].tolist() for step in range(8)]
    for epoch in (seen[:4], seen[4:]):
        assert sorted(row for batch in epoch for row in batch) == list(range(40))
    assert seen[:4] != seen[4:]
    again = Batches(pictures, words, 10, 8, 5)
    for step in (6, 1):  # in another order than before
        crop, bag = again.of_step(step)
        assert crop[:, 0, 0, 0].tolist() == seen[step]
        assert bag.numpy().tolist() == words[seen[step]].tolist()
        assert crop.shape == (10, 3, 8, 8)


def test_crops_are_squares_of_the_pictures_at_all_places():
    pictures = np.zeros((10, 12, 12, 3), np.uint8)
    pictures[..., 0], pictures[..., 1] = np.arange(12)[:, None], np.arange(12)
    batches = Batches(pictures, data(10)[1], 10, 8, 1)
    corners = set()
    for step in range(200):
        crop, _ = batches.of_step(step)
        top, left = crop[0, :2, 0, 0].tolist()
        corners.add((top, left))
        square = pictures[:, top : top + 8, left : left + 8].transpose(0, 3, 1, 2)
        assert np.array_equal(crop.numpy(), square)
    assert corners == {(top, left) for top in range(5) for left in range(5)}


@pytest.mark.parametrize(("size", "crop", "problem"), [(50, 8, "fewer than"), (10, 16, "smaller")])
def test_batches_that_cannot_be_are_refused(size, crop, problem):
    with pytest.raises(ValueError, match=problem):
        Batches(*data(40), size, crop, 0)


def test_training_learns_pairs_and_random_weights_do_not_know_them():
    draw = np.random.default_rng(2)
    kinds = np.arange(64) % 4
    pictures = draw.integers(0, 60, (64, 12, 12, 3), dtype=np.uint8)
    pictures[np.arange(64), :, :, kinds % 3] += (80 + 40 * (kinds == 3)).astype(np.uint8)[
        :, None, None
    ]
    words = np.eye(5, dtype=np.uint8)[kinds]
    towers = SmallTowers(SIZES, 0)
    batches = Batches(pictures, words, 16, 8, 0)
    plan = TrainingPlan(120, 5e-3, 5e-5, 0.01, 1.0)
    losses = train(towers, lambda step: towers.loss(*batches.of_step(step)), plan)
    # Sixteen pairs of four kinds: at best a loss of log 4 in each direction.
    assert losses[:5].mean() > 5
    assert losses[-20:].mean() < 3.2
    images = features_of_pictures(towers, pictures) @ towers.image_projection.detach().numpy()
    texts = features_of_texts(towers, np.eye(5, dtype=np.uint8)[:4])
    texts = texts @ towers.text_projection.detach().numpy()
    images, texts = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (images, texts))
    assert ((images @ texts.T).argmax(axis=1) == kinds).mean() > 0.9


def test_features_are_of_the_middle_of_the_pictures():
    towers, (pictures, _) = SmallTowers(SIZES, 0), data(3)
    middle = torch.from_numpy(pictures[:, 2:10, 2:10].transpose(0, 3, 1, 2).copy())
    with torch.no_grad():
        expected = towers.image_features(middle).numpy()
    assert features_of_pictures(towers, pictures) == pytest.approx(expected, abs=1e-5)


def test_words_of_captions():
    known = vocabulary(["A red star.", "the number 3 on a disc"])
    assert known == ["3", "a", "disc", "number", "on", "red", "star", "the"]
    found = bags(["red, RED star", "blue"], known)
    assert [known[k] for k in np.flatnonzero(found[0])] == ["red", "star"]
    assert found.max() == 1
    assert not found[1].any()


def test_held_out_rows_are_a_random_share():
    rows = held_out_rows(100, 20, np.random.default_rng(0))
    assert len(set(rows.tolist())) == 20
    assert rows.tolist() == sorted(rows.tolist())
    assert rows.tolist() != held_out_rows(100, 20, np.random.default_rng(1)).tolist()
    with pytest.raises(ValueError, match="fewer than two"):
        held_out_rows(10, 9, np.random.default_rng(0))


def test_pictures_are_averaged():
    picture = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    small = resized(picture, 2)
    expected = np.asarray(picture).reshape(2, 2, 2, 2, 3).mean(axis=(1, 3))
    assert np.abs(small - expected).max() <= 0.5


def test_a_pair_that_is_in_no_index_is_named_by_number():
    pairs = pd.DataFrame({"key": ["a", "b"], "group": ["0", "0"]})
    with pytest.raises(UserError, match="2 of 2 pairs"):
        read_pictures(pairs, {}, [], 8)


def test_a_pair_without_true_features_is_an_error():
    with pytest.raises(UserError, match="generated"):
        true_features(["a"], [])


def test_texts_that_no_file_has_are_an_error():
    with pytest.raises(UserError, match="identity"):
        texts_of(["00000000000000ff"], [])
