"""Draws: what is realised, and what they depend on."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from mispair.simulation.examiner import draw_test_set
from mispair.simulation.inputs import Dense
from mispair.simulation.pairs import (
    Dictionaries,
    LatentPairs,
    Population,
    TrialDraws,
    draw_dictionaries,
    draw_pairs,
    draw_spurious_sets,
)
from mispair.simulation.samples import (
    CodedSample,
    FixedSample,
    draw_high_quality,
    draw_low_quality,
    joined,
)
from mispair.simulation.study import Study
from tests.simulation.test_simulation_misalignment import cross_moment, study_of

SIZES: dict[str, Any] = {
    "d1": 80, "d": 20, "m": 24, "classes": 5, "batch_size": 40, "low_quality_pairs": 300,
    "high_quality_pairs": 60, "test_images": 200,
}  # fmt: skip
STUDY = Study(**SIZES)
FIXED = Study(preset="as-written", **SIZES)
MODELS = ["caption", "partner", "groups", "random-sets", "independent"]


def draws(trial: int = 0, seed: int = 0) -> TrialDraws:
    return TrialDraws(seed=seed, trial=trial, dtype=torch.float32)


def population(study: Study, rate: float = 0.3) -> Population:
    spurious = draw_spurious_sets(draws(), study)
    return Population(draws(), study, dictionaries(), spurious, rate)


def pairs_of(study: Study, rate: float, n: int = 500, name: str = "x") -> LatentPairs:
    return draw_pairs(population(study, rate), draws().generator(name), n)


def dictionaries() -> Dictionaries:
    return draw_dictionaries(draws(), 80, 20)


def low_quality(study: Study, rate: float = 0.3) -> FixedSample:
    return draw_low_quality(population(study, rate))


def changed(study: Study, **changes: Any) -> Study:
    return study.model_copy(update=changes)


def test_dictionaries_are_orthonormal_and_differ() -> None:
    for rows in (dictionaries().image, dictionaries().text):
        assert rows.shape == (20, 80)
        torch.testing.assert_close(rows @ rows.T, torch.eye(20), rtol=0, atol=1e-5)
    assert (dictionaries().image @ dictionaries().text.T).abs().max() < 0.6


@pytest.mark.parametrize("values", ["binary", "signed"])
@pytest.mark.parametrize("model", MODELS)
def test_pairs_have_the_cross_moment(model: str, values: str) -> None:
    n = 100_000
    study = study_of(model, d=4, latent_values=values, latent_density=0.3)
    pairs = pairs_of(study, 0.3, n)
    expected = cross_moment(study, 0.3, draw_spurious_sets(draws(), study))
    found = pairs.image.T @ pairs.text / n
    error = (pairs.image.square().T @ pairs.text.square() / n**2).sqrt()
    assert ((found - expected).abs() <= 5 * error).all()
    active = pairs.image.square().mean(dim=0)
    assert ((active - 0.3).abs() < 5 * math.sqrt(0.21 / n)).all()
    if values == "signed":
        assert set(pairs.text.unique().tolist()) == {-1.0, 0.0, 1.0}
        assert (pairs.image.mean(dim=0).abs() < 5 * math.sqrt(0.3 / n)).all()
    else:
        assert set(pairs.text.unique().tolist()) == {0.0, 1.0}
    wrong = (pairs.image != pairs.text).any(dim=1)
    if model == "caption":  # a redrawn caption may be the same by chance
        assert not wrong[~pairs.misaligned].any()
        assert float(pairs.misaligned.float().mean()) == pytest.approx(0.3, abs=0.01)
    else:
        assert torch.equal(pairs.misaligned, wrong)


@pytest.mark.parametrize("model", MODELS)
def test_conditions_share_their_draws(model: str) -> None:
    """A caption that is wrong at a low C_s is wrong at a higher one."""
    study = changed(STUDY, misalignment=model, latent_values="signed")
    none, low, high = (pairs_of(study, rate) for rate in (0.0, 0.1, 0.3))
    assert torch.equal(none.image, none.text)
    assert not none.misaligned.any()
    assert torch.equal(low.image, none.image)
    assert torch.equal(high.image, none.image)
    assert low.misaligned.sum() < high.misaligned.sum()
    if model == "caption":
        assert (high.misaligned | ~low.misaligned).all()
        assert torch.equal(low.text[low.misaligned], high.text[low.misaligned])
    else:  # two features that become each other hide it, hardly ever
        assert float((low.misaligned & ~high.misaligned).float().mean()) < 0.01


@pytest.mark.parametrize("data", ["fixed", "fresh"])
@pytest.mark.parametrize(("unit", "scale"), [("std", 0.04), ("variance", 0.2)])
def test_noise_has_the_energy_of_its_unit(unit: str, scale: float, data: str) -> None:
    study = changed(
        FIXED, noise_unit=unit, image_noise=scale, text_noise=2 * scale,
        high_quality_noise=3 * scale, data=data, low_quality_pairs=1000, high_quality_pairs=1000,
    )  # fmt: skip
    for sample, factor in ((low_quality(study), 2), (draw_high_quality(population(study)), 3)):
        for inputs, codes, rows, value in (
            (sample.image, sample.pairs.image, dictionaries().image, scale),
            (sample.text, sample.pairs.text, dictionaries().text, factor * scale),
        ):
            energy = float((inputs.dense() - codes @ rows).square().sum(dim=1).mean())
            expected = {"std": 80 * value**2, "variance": 80 * value}[unit]
            assert energy == pytest.approx(expected, rel=5 * math.sqrt(2 / (1000 * 80)))


@pytest.mark.parametrize("model", MODELS)
def test_a_fixed_sample_differs_between_conditions_in_caption_codes_only(model: str) -> None:
    study = changed(FIXED, misalignment=model)
    low, high = low_quality(study, 0.1), low_quality(study, 0.3)
    assert isinstance(low.image, Dense)
    assert isinstance(low.text, Dense)
    assert torch.equal(low.image.dense(), high.image.dense())
    noise = [
        sample.text.dense() - sample.pairs.text @ dictionaries().text for sample in (low, high)
    ]
    torch.testing.assert_close(noise[0], noise[1], rtol=0, atol=1e-5)
    assert not torch.equal(low.pairs.text, high.pairs.text)
    image_noise = low.image.values - low.pairs.image @ dictionaries().image
    together = float((image_noise * noise[0]).mean())
    assert abs(together) < 5 * 0.02 / math.sqrt(300 * 80)  # independent


@pytest.mark.parametrize("study", [STUDY, FIXED])
def test_high_quality_pairs_are_aligned_and_of_their_own_draw(study: Study) -> None:
    sample = draw_high_quality(population(study))
    assert len(sample) == 60
    assert torch.equal(sample.pairs.image, sample.pairs.text)
    assert not sample.pairs.misaligned.any()
    assert not torch.equal(sample.pairs.image, low_quality(study).pairs.image[:60])


def partly_noisy() -> FixedSample:
    """Every third caption is generated: without noise, from other coefficients."""
    generator = torch.Generator().manual_seed(0)
    noise_row = torch.full((30,), -1)
    noisy = torch.arange(30) % 3 > 0
    noise_row[noisy] = torch.arange(20).flip(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    text_rows = torch.cat([dictionaries().text, normal(25, 80)])
    nowhere = torch.full((30,), -1)
    return FixedSample(
        CodedSample(normal(30, 20), dictionaries().image, torch.empty(0, 80), nowhere),
        CodedSample(normal(30, 45), text_rows, normal(20, 80), noise_row),
        LatentPairs(normal(30, 20), normal(30, 20), noisy),
    )


def test_a_coded_sample_is_its_dense_matrix() -> None:
    text = partly_noisy().text
    expected = text.codes @ text.rows
    for row, place in enumerate(text.noise_row.tolist()):
        if place >= 0:
            expected[row] += text.noise[place]
    torch.testing.assert_close(text.dense(), expected, rtol=1e-4, atol=1e-4)
    generator = torch.Generator().manual_seed(1)
    weights, gradient = (torch.randn(*s, generator=generator) for s in ((24, 80), (30, 24)))
    torch.testing.assert_close(text.product(weights), expected @ weights.T, rtol=1e-4, atol=1e-4)
    out = torch.ones(24, 80)
    text.accumulate(gradient, weights, out)
    torch.testing.assert_close(out, 1 + gradient.T @ expected, rtol=1e-4, atol=1e-4)


def test_take_puts_noisy_captions_first_and_keeps_pairs_together() -> None:
    sample = partly_noisy()
    rows = torch.tensor([6, 4, 0, 29, 4, 2])
    ordered = torch.tensor([4, 29, 4, 2, 6, 0])
    batch = sample.take(rows)
    assert batch.text.stored is not None
    assert len(batch.text.stored) == 4
    torch.testing.assert_close(batch.image.dense(), sample.image.dense()[ordered])
    torch.testing.assert_close(batch.text.dense(), sample.text.dense()[ordered])
    without = sample.take(torch.tensor([3, 0]))
    assert without.text.stored is None
    torch.testing.assert_close(without.text.dense(), sample.text.dense()[[3, 0]])


@pytest.mark.parametrize("study", [FIXED, changed(FIXED, data="fresh")])
def test_take_gathers_rows_in_order(study: Study) -> None:
    sample = low_quality(study)
    rows = torch.tensor([5, 3, 200, 3])
    batch = sample.take(rows)
    torch.testing.assert_close(batch.image.dense(), sample.image.dense()[rows])
    torch.testing.assert_close(batch.text.dense(), sample.text.dense()[rows])


def test_samples_join_whatever_their_form() -> None:
    coded = low_quality(changed(FIXED, data="fresh"))
    noiseless = low_quality(changed(FIXED, text_noise=0.0))
    dense = low_quality(FIXED)
    filtered = partly_noisy()
    filtered_noisily = FixedSample(
        CodedSample(
            filtered.pairs.image, dictionaries().image, torch.ones(30, 80), torch.arange(30)
        ),
        filtered.text,
        filtered.pairs,
    )
    for parts in ([dense, dense], [dense, noiseless], [coded, filtered_noisily], [coded]):
        whole = joined(parts)
        assert len(whole) == sum(map(len, parts))
        for side in ("image", "text"):
            expected = torch.cat([getattr(part, side).dense() for part in parts])
            found = getattr(whole, side)
            torch.testing.assert_close(found.dense(), expected)
            all_coded = all(isinstance(getattr(part, side), CodedSample) for part in parts)
            assert isinstance(found, CodedSample) == all_coded
            codes = torch.cat([getattr(part.pairs, side) for part in parts])
            assert torch.equal(getattr(whole.pairs, side), codes)
        misaligned = torch.cat([part.pairs.misaligned for part in parts])
        assert torch.equal(whole.pairs.misaligned, misaligned)


def test_as_run_test_set_is_what_it_was() -> None:
    test = draw_test_set(draws(), dictionaries(), STUDY, 0.1, 2)
    generator = draws().generator("test")
    found: list[Tensor] = []
    while sum(map(len, found)) < 200:
        codes = torch.rand(800, 20, generator=generator) < 0.1
        best = codes.view(-1, 5, 4).sum(dim=2).topk(2).values
        found.append(codes[best[:, 0] >= best[:, 1] + 2])
    codes = torch.cat(found)[:200]
    images = codes.float() @ dictionaries().image
    images += 0.16 * torch.randn(200, 80, generator=generator)
    prompts = torch.eye(5).repeat_interleave(4, dim=1) @ dictionaries().text
    prompts += 0.16 * torch.randn(5, 80, generator=generator)
    assert torch.equal(test.images, images)
    assert torch.equal(test.prompts, prompts)
    assert torch.equal(test.labels, codes.view(-1, 5, 4).sum(dim=2).argmax(dim=1))


@pytest.mark.parametrize("margin", [1, 2, 3])
def test_test_images_have_the_margin_and_are_labelled_by_it(margin: int) -> None:
    study = changed(STUDY, test_image_noise=1e-4, prompt_noise=1e-4)
    test = draw_test_set(draws(), dictionaries(), study, 0.2, margin)
    assert test.images.shape == (200, 80)
    codes = (test.images @ dictionaries().image.T).round()
    sums = codes.view(200, 5, 4).sum(dim=2)
    best = sums.sort(dim=1, descending=True).values
    assert (best[:, 0] - best[:, 1]).min() == margin
    assert torch.equal(sums.argmax(dim=1), test.labels)
    prompts = (test.prompts @ dictionaries().text.T).round()
    assert torch.equal(prompts, torch.eye(5).repeat_interleave(4, dim=1))
    torch.testing.assert_close(test.clean_prompts, test.prompts, rtol=0, atol=1e-3)


@pytest.mark.parametrize(("unit", "value"), [("std", 0.5), ("variance", 0.25)])
def test_test_noise_has_the_given_size(unit: str, value: float) -> None:
    study = changed(STUDY, noise_unit=unit, test_image_noise=value, prompt_noise=value)
    test = draw_test_set(draws(), dictionaries(), changed(study, test_images=2000), 0.2, 1)
    outside = test.images - (test.images @ dictionaries().image.T) @ dictionaries().image
    per_coordinate = outside.square().sum() / (2000 * (80 - 20))
    assert float(per_coordinate.sqrt()) == pytest.approx(0.5, rel=0.02)
    prompt_noise = test.prompts - test.clean_prompts
    assert float(prompt_noise.std()) == pytest.approx(0.5, rel=0.2)


def test_the_shift_is_small_fixed_and_on_the_images_alone() -> None:
    """P_1 from the images: M' z with M' = M P_1, whose entry (k, j) moves feature j towards k."""
    study = changed(STUDY, test_shift=0.4, test_image_noise=0.0, prompt_noise=0.0)
    test = draw_test_set(draws(), dictionaries(), study, 0.2, 1)
    plain = draw_test_set(draws(), dictionaries(), changed(study, test_shift=0.0), 0.2, 1)
    codes = (plain.images @ dictionaries().image.T).round()
    assert torch.equal(test.prompts, plain.prompts)
    M = dictionaries().image.T
    shift = torch.linalg.lstsq(codes, test.images @ M).solution.T
    moved = shift - torch.eye(20)
    for image, code in zip(test.images[:5], codes[:5], strict=True):
        torch.testing.assert_close(image, M @ shift @ code, rtol=0, atol=1e-5)
    generator = draws().generator("test", "shift")
    uniform = torch.rand(20, 20, generator=generator)
    torch.testing.assert_close(moved, 0.4 / math.sqrt(20) * (2 * uniform - 1), rtol=0, atol=1e-5)


def test_a_margin_out_of_reach_ends_with_a_reason() -> None:
    study = changed(STUDY, test_images=10)
    with pytest.raises(ValueError, match="test_margin: of 40000 test images with density 0.001"):
        draw_test_set(draws(), dictionaries(), study, 0.001, 4)
