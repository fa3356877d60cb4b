"""The filter on cases whose outcome is known."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from mispair.simulation.decoder import Decoder, compare, only, replaced_sample, shares
from mispair.simulation.encoder import Encoders
from mispair.simulation.inputs import Dense
from mispair.simulation.pairs import (
    Dictionaries,
    Population,
    TrialDraws,
    draw_dictionaries,
    draw_spurious_sets,
)
from mispair.simulation.samples import FixedSample, draw_low_quality
from mispair.simulation.study import Study

DRAWS = TrialDraws(seed=1, trial=0, dtype=torch.float32)
SIZES = {
    "d1": 100, "d": 20, "m": 24, "batch_size": 50, "steps_per_epoch": 8, "low_quality_pairs": 200,
    "latent_density": 0.4, "spurious_group_size": 4,
}  # fmt: skip
FRESH = Study(preset="as-run", text_noise=0.05, **SIZES)
FIXED = Study(preset="as-written", text_noise=0.0025, image_noise=0.0001, **SIZES)
STUDIES = pytest.mark.parametrize("study", [FRESH, FIXED], ids=["fresh", "fixed"])


def perfect(study: Study = FRESH) -> tuple[Dictionaries, Encoders, Decoder]:
    """Encoders and a decoder whose neurons are the features; the surplus neurons are silent."""
    dictionaries = draw_dictionaries(DRAWS, study.d1, study.d)
    silent = torch.zeros(study.m - study.d, study.d1)
    image = torch.cat([dictionaries.image, silent])
    text = torch.cat([dictionaries.text, silent])
    kind: Any = study.encoder
    encoders = Encoders(kind, torch.stack([image, text]), torch.zeros(2, study.m))
    output_bias = torch.zeros(study.d1)
    decoder = Decoder(study.decoder, image, torch.zeros(study.m), text, output_bias)
    return dictionaries, encoders, decoder


def sample_of(study: Study, rate: float) -> FixedSample:
    spurious = draw_spurious_sets(DRAWS, study)
    return draw_low_quality(Population(DRAWS, study, perfect(study)[0], spurious, rate))


def filtered(study: Study, rate: float, factor: float = 1.2) -> tuple[FixedSample, Tensor, Tensor]:
    _, encoders, decoder = perfect(study)
    sample = sample_of(study, rate)
    return sample, *compare(encoders, decoder, sample, factor)


def cosines(encoders: Any, sample: FixedSample, rivals: Tensor) -> list[Tensor]:
    """Cosines of images with their captions, and with other ones."""
    images = encoders.features(0, Dense(sample.image.dense()))
    texts = (sample.text.dense(), rivals)
    made = [encoders.features(1, Dense(one)).double() for one in texts]
    return [torch.nn.functional.cosine_similarity(images.double(), one) for one in made]


def assert_decisive(
    encoders: Any, decoder: Decoder, sample: FixedSample, original: Tensor, generated: Tensor
) -> None:
    """Each pair is decided by these cosines: the factor that is their ratio is where it turns."""
    exact = original.abs() > 1e-3  # a ratio to zero is nothing but rounding
    assert exact.double().mean() > 0.9
    for shift, expected in ((-1e-5, True), (1e-5, False)):
        replaced, _ = compare(encoders, decoder, sample, (generated + shift) / original)
        assert (replaced[exact] == expected).all()


@STUDIES
def test_the_decision_compares_cosines_of_features(study: Study) -> None:
    sample, replaced, hidden = filtered(study, 0.4, 1.1)
    _, encoders, decoder = perfect(study)
    original, generated = cosines(encoders, sample, hidden @ decoder.output_rows)
    expected = generated >= 1.1 * original
    assert replaced.tolist() == expected.tolist()
    assert 0 < expected.sum() < len(expected)
    assert_decisive(encoders, decoder, sample, original, generated)


def test_a_silent_image_takes_the_generated_caption() -> None:
    _, encoders, decoder = perfect()
    sample = sample_of(FRESH, 0.0)
    deaf = Encoders(encoders.kind, encoders.weights, torch.full((2, FRESH.m), -100.0))
    for factor in (1.2, 1e9, -1e9):
        assert compare(deaf, decoder, sample, factor)[0].all()  # 0 >= factor · 0


def test_shares_are_those_of_bad_and_of_clean_captions() -> None:
    replaced = torch.tensor([True, False, True, True, False])
    bad = torch.tensor([True, True, False, False, False])
    expected = {
        "replaced_share": 3 / 5, "replaced_share_bad": 1 / 2, "replaced_share_clean": 2 / 3,
    }  # fmt: skip
    assert shares(replaced, bad) == pytest.approx(expected)
    assert shares(replaced, ~replaced & replaced).keys() == {
        "replaced_share", "replaced_share_clean",
    }  # fmt: skip


@STUDIES
def test_captions_are_the_original_or_the_decoders(study: Study) -> None:
    _, encoders, decoder = perfect(study)
    if decoder.kind == "relu":  # an output bias that shows
        decoder = dataclasses.replace(decoder, output_bias=torch.full((100,), 0.01))
    sample = sample_of(study, 0.4)
    replaced, hidden = compare(encoders, decoder, sample, 1.1)
    assert torch.equal(hidden, decoder.hidden(sample.image))
    made = replaced_sample(sample, hidden, decoder, replaced)
    assert made.image is sample.image
    assert made.pairs is sample.pairs
    assert type(made.text) is type(sample.text)
    generated = sample.image.dense() @ decoder.input_weights.T
    if decoder.kind == "relu":
        generated = generated.relu()
    generated = generated @ decoder.output_rows + decoder.output_bias
    texts, originals = made.text.dense(), sample.text.dense()
    assert 0 < int(replaced.sum()) < len(replaced)
    torch.testing.assert_close(texts[replaced], generated[replaced], rtol=0, atol=1e-5)
    torch.testing.assert_close(texts[~replaced], originals[~replaced], rtol=0, atol=1e-5)


def test_a_coded_sample_keeps_the_noise_of_kept_captions_only() -> None:
    sample, replaced, hidden = filtered(FRESH, 0.4)
    decoder = perfect()[2]
    made = replaced_sample(sample, hidden, decoder, replaced).text
    assert made.codes.shape == (200, 20 + 24 + 1)
    kept = ~replaced
    assert (made.noise_row[replaced] == -1).all()
    assert sorted(made.noise_row[kept].tolist()) == list(range(int(kept.sum())))
    assert torch.equal(made.noise, sample.text.noise[kept])


@STUDIES
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_only_some_pairs_can_be_kept(study: Study, share: float) -> None:
    sample, replaced, hidden = filtered(study, 0.4)
    made = replaced_sample(sample, hidden, perfect(study)[2], replaced)
    wanted = torch.rand(200, generator=DRAWS.generator("wanted")) < share
    few = only(made, wanted)
    assert len(few) == int(wanted.sum())
    assert type(few.text) is type(made.text) is type(sample.text)
    torch.testing.assert_close(few.image.dense(), made.image.dense()[wanted], rtol=0, atol=1e-6)
    torch.testing.assert_close(few.text.dense(), made.text.dense()[wanted], rtol=0, atol=1e-6)
    assert torch.equal(few.pairs.text, made.pairs.text[wanted])
    assert torch.equal(few.pairs.image, made.pairs.image[wanted])
    assert torch.equal(few.pairs.misaligned, made.pairs.misaligned[wanted])


def test_generated_captions_alone_need_no_noise() -> None:
    sample, replaced, hidden = filtered(FRESH, 0.4)
    made = replaced_sample(sample, hidden, perfect()[2], replaced)
    text = only(made, replaced).text
    assert text.noise.shape == (0, 100)
