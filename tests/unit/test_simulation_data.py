"""Draws: what is realised, and what they depend on."""

from __future__ import annotations

import math

import pytest
import torch

from mispair.simulation.data import (
    Draws,
    draw_dictionaries,
    draw_fresh_batch,
    draw_pairs,
    draw_test_set,
)
from mispair.simulation.study import Study

STUDY = Study(
    d1=80, d=20, m=24, classes=5, batch_size=40, filtered_pairs=80, test_images=200,
    test_density=0.2,
)  # fmt: skip


def draws(trial: int = 0, seed: int = 0) -> Draws:
    return Draws(seed=seed, trial=trial, device="cpu", dtype=torch.float32)


def test_dictionaries_are_orthonormal_and_differ() -> None:
    dictionaries = draw_dictionaries(draws(), 80, 20)
    for rows in (dictionaries.image, dictionaries.text):
        assert rows.shape == (20, 80)
        torch.testing.assert_close(rows @ rows.T, torch.eye(20), rtol=0, atol=1e-5)
    assert (dictionaries.image @ dictionaries.text.T).abs().max() < 0.6


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.9])
def test_whole_captions_are_redrawn_at_the_rate(rate: float) -> None:
    n = 20_000
    pairs = draw_pairs(draws(), draws().generator("x"), n, STUDY, rate)
    error = math.sqrt(rate * (1 - rate) / n)
    assert abs(float(pairs.redrawn.float().mean()) - rate) <= 5 * error
    assert torch.equal(pairs.text[~pairs.redrawn], pairs.image[~pairs.redrawn])
    for codes in (pairs.image, pairs.text):
        assert set(codes.unique().tolist()) == {0.0, 1.0}
        assert abs(float(codes.mean()) - STUDY.latent_density) < 0.005
    if rate > 0:
        image, text = pairs.image[pairs.redrawn], pairs.text[pairs.redrawn]
        together = float((image * text).mean())
        assert together == pytest.approx(STUDY.latent_density**2, abs=0.002)  # independent


def test_a_batch_depends_on_seed_trial_arm_and_step_only() -> None:
    dictionaries = draw_dictionaries(draws(), 80, 20)

    def codes(arm: str, step: int, trial: int = 0, seed: int = 0) -> bytes:
        batch = draw_fresh_batch(draws(trial, seed), arm, step, dictionaries, STUDY, 0.3)
        assert batch.fresh is not None
        parts = (batch.image_codes, batch.text_codes, batch.fresh.seen, batch.fresh.unseen)
        return b"".join(part.numpy().tobytes() for part in parts)

    first = codes("raw", 7)
    torch.rand(5)  # draws of others do not matter
    for step in (3, 9):
        codes("raw", step)
    assert codes("raw", 7) == first
    others = [codes("raw", 8), codes("filtered", 7), codes("raw", 7, 1), codes("raw", 7, 0, 1)]
    assert len({first, *others}) == 5


def test_conditions_share_their_draws() -> None:
    """A caption that is redrawn at a low C_s is redrawn, to the same code, at a higher one."""
    low = draw_pairs(draws(), draws().generator("x"), 500, STUDY, 0.2)
    high = draw_pairs(draws(), draws().generator("x"), 500, STUDY, 0.5)
    assert torch.equal(low.image, high.image)
    assert (high.redrawn | ~low.redrawn).all()
    assert torch.equal(low.text[low.redrawn], high.text[low.redrawn])


@pytest.mark.parametrize("margin", [1, 2, 3])
def test_test_images_have_the_margin_and_are_labelled_by_it(margin: int) -> None:
    study = STUDY.model_copy(
        update={"test_margin": margin, "test_image_noise": 1e-4, "prompt_noise": 1e-4}
    )
    dictionaries = draw_dictionaries(draws(), 80, 20)
    test = draw_test_set(draws(), dictionaries, study)
    assert test.images.shape == (200, 80)
    codes = (test.images @ dictionaries.image.T).round()
    sums = codes.view(200, 5, 4).sum(dim=2)
    best = sums.sort(dim=1, descending=True).values
    assert (best[:, 0] - best[:, 1]).min() == margin
    assert torch.equal(sums.argmax(dim=1), test.labels)
    prompts = (test.prompts @ dictionaries.text.T).round()
    assert torch.equal(prompts, torch.eye(5).repeat_interleave(4, dim=1))


def test_test_noise_has_the_given_standard_deviation_per_coordinate() -> None:
    study = STUDY.model_copy(update={"test_image_noise": 0.5, "test_images": 2000})
    dictionaries = draw_dictionaries(draws(), 80, 20)
    test = draw_test_set(draws(), dictionaries, study)
    outside = test.images - (test.images @ dictionaries.image.T) @ dictionaries.image
    per_coordinate = outside.square().sum() / (2000 * (80 - 20))
    assert float(per_coordinate.sqrt()) == pytest.approx(0.5, rel=0.02)
