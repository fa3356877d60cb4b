"""The decoder against automatic differentiation, and where it starts."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mispair.simulation.decoder import Decoder, fit_decoder, start_decoder
from mispair.simulation.encoder import Diverged, Encoders, Phases
from mispair.simulation.inputs import Dense
from mispair.simulation.pairs import Population, TrialDraws, draw_dictionaries, draw_spurious_sets
from mispair.simulation.samples import FixedSample, draw_high_quality
from mispair.simulation.study import Study

DRAWS = TrialDraws(seed=1, trial=0, dtype=torch.float64)
PARAMETERS = ("input_weights", "input_bias", "output_rows", "output_bias")
SIZES = {
    "d1": 60, "d": 10, "m": 14, "classes": 5, "high_quality_pairs": 30, "batch_size": 20,
    "spurious_group_size": 5, "image_noise": 0.01, "high_quality_noise": 0.01, "decoder_steps": 25,
}  # fmt: skip
RATES = {("sgd", "sum"): 0.05, ("sgd", "mean"): 40.0, ("adam", "sum"): 0.02, ("adam", "mean"): 0.02}
DICTIONARIES = draw_dictionaries(DRAWS, 60, 10)


def study_of(preset: str = "as-written", **values: Any) -> Study:
    return Study(preset=preset, **{**SIZES, **values})


def some_encoders(kind: Any = "symmetric-relu", bias: float = 0.1) -> Encoders:
    """Encoders whose neurons are features, one fifth too long, and noise."""
    generator = DRAWS.generator("weights")
    weights = 0.1 * DRAWS.normal(generator, 2, 14, 60)
    for rows, side in zip(weights, (DICTIONARIES.image, DICTIONARIES.text), strict=True):
        rows += 0.6 * side[torch.arange(14) % 10]
    biases = bias + 0.05 * DRAWS.normal(generator, 2, 14)
    return Encoders(kind, weights, biases)


def high_quality(study: Study) -> FixedSample:
    spurious = draw_spurious_sets(DRAWS, study)
    return draw_high_quality(Population(DRAWS, study, DICTIONARIES, spurious, 0.3))


def loss_of(decoder: Decoder, parameters: list[Tensor], x: Tensor, y: Tensor, how: str) -> Tensor:
    """Eqs. 6 and 7 written out."""
    W, b, U, c = parameters
    if decoder.kind == "relu":
        made = (x @ W.T + b).clamp(min=0) @ U + c
    else:
        a = x @ W.T
        made = (a.sign() * (a.abs() - b).clamp(min=0)) @ U
    errors = (made - y) ** 2
    return errors.mean() if how == "mean" else errors.sum() / 2


def twin(start: Decoder, x: Tensor, y_of: Any, study: Study, growth: float = 1.0) -> list[Tensor]:
    """Fit by automatic differentiation in full dimensions."""
    parameters = [getattr(start, name).clone() for name in PARAMETERS]
    W, b, U, c = parameters
    trained = [U, *([c, b] if start.kind == "relu" else []), W]
    for parameter in trained:
        parameter.requires_grad_()
    how = torch.optim.Adam if study.decoder_optimiser == "adam" else torch.optim.SGD
    optimiser = how(trained, lr=study.decoder_lr)
    for step in range(study.decoder_steps):
        optimiser.zero_grad()
        loss_of(start, parameters, x, y_of(step), study.decoder_loss_reduction).backward()
        optimiser.step()
        if growth != 1:
            b *= growth
    return [parameter.detach() for parameter in parameters]


@pytest.mark.parametrize("kind", ["relu", "symmetric-relu"])
@pytest.mark.parametrize(("optimiser", "reduction"), RATES)
@pytest.mark.parametrize("pairs", [30, 90])  # fewer and more than d1
def test_fits_s_h_as_automatic_differentiation_does(kind, optimiser, reduction, pairs) -> None:
    study = study_of(
        decoder=kind, decoder_optimiser=optimiser, decoder_loss_reduction=reduction,
        decoder_lr=RATES[optimiser, reduction] * 30 / pairs, high_quality_pairs=pairs,
    )  # fmt: skip
    sample = high_quality(study)
    x, y = sample.image.dense(), sample.text.dense()
    start = start_decoder(DRAWS, some_encoders(), study)
    if kind == "relu":  # biases that matter from the first step on
        start = dataclasses.replace(start, input_bias=torch.linspace(-0.2, 0.2, 14).double())
    before = [getattr(start, name).clone() for name in PARAMETERS]
    decoder, loss = fit_decoder(DRAWS, start, DICTIONARIES, sample, study)

    expected = twin(start, x, lambda step: y, study)
    for name, value in zip(PARAMETERS, expected, strict=True):
        torch.testing.assert_close(getattr(decoder, name), value, rtol=1e-9, atol=1e-11)
    assert loss == pytest.approx(float(loss_of(start, expected, x, y, "sum")) / pairs)
    # What is compared has moved, and what was given has not.
    moved = [
        float((getattr(decoder, name) - value).norm() / value.norm())
        for name, value in zip(PARAMETERS, before, strict=True)
    ]
    assert min(moved[0], moved[2]) > 0.1
    assert (moved[1] > 0) == (kind == "relu")
    assert bool(decoder.output_bias.any()) == (kind == "relu")
    for name, value in zip(PARAMETERS, before, strict=True):
        assert torch.equal(getattr(start, name), value)


@pytest.mark.parametrize("kind", ["relu", "symmetric-relu"])
@pytest.mark.parametrize(("optimiser", "reduction"), RATES)
def test_fits_one_hot_pairs_with_new_noise_at_every_step(kind, optimiser, reduction) -> None:
    study = study_of(
        "as-run", image_noise=0.0, decoder=kind, decoder_optimiser=optimiser,
        decoder_loss_reduction=reduction, decoder_lr=RATES[optimiser, reduction],
        high_quality_noise=0.1,
    )  # fmt: skip

    def captions(step: int) -> Tensor:
        noise = DRAWS.normal(DRAWS.generator("decoder", step), 10, 60)
        return DICTIONARIES.text + 0.1 * noise

    start = start_decoder(DRAWS, some_encoders(), study)
    decoder, loss = fit_decoder(DRAWS, start, DICTIONARIES, high_quality(study), study)
    expected = twin(start, DICTIONARIES.image, captions, study)
    for name, value in zip(PARAMETERS, expected, strict=True):
        torch.testing.assert_close(getattr(decoder, name), value, rtol=1e-9, atol=1e-11)
    at_end = loss_of(start, expected, DICTIONARIES.image, captions(study.decoder_steps), "sum")
    assert loss == pytest.approx(float(at_end) / 10)


def test_single_precision_agrees_with_double() -> None:
    study = study_of(decoder_lr=0.05)
    found = []
    for dtype in (torch.float64, torch.float32):
        sample = high_quality(study)
        start = start_decoder(DRAWS, some_encoders(), study)
        sample = FixedSample(
            Dense(sample.image.dense().to(dtype)),
            Dense(sample.text.dense().to(dtype)),
            sample.pairs,
        )
        start = Decoder(start.kind, *(getattr(start, name).to(dtype) for name in PARAMETERS))
        found.append(fit_decoder(DRAWS, start, DICTIONARIES, sample, study)[0])
    double, single = found
    torch.testing.assert_close(single.output_rows.double(), double.output_rows, rtol=0, atol=1e-5)
    torch.testing.assert_close(
        single.input_weights.double(), double.input_weights, rtol=0, atol=1e-5
    )


# Starting weights and thresholds ------------------------------------------------------------------


def test_starts_from_the_encoders_or_from_xavier() -> None:
    study, encoders = study_of("as-run", d1=400), Encoders(
        "relu", torch.randn(2, 14, 400).double(), torch.ones(2, 14).double()
    )  # fmt: skip
    ours = start_decoder(DRAWS, encoders, study)
    assert torch.equal(ours.input_weights, encoders.weights[0])
    assert torch.equal(ours.output_rows, encoders.weights[1])
    random = start_decoder(DRAWS, None, study)
    bound = np.sqrt(6 / (14 + 400))
    for weights in (random.input_weights, random.output_rows):
        assert 0.98 * bound < float(weights.abs().max()) <= bound
        assert abs(float(weights.mean())) < 0.05 * bound
    for decoder in (ours, random):
        assert decoder.kind == "relu"
        assert not decoder.input_bias.any()
        assert not decoder.output_bias.any()


@pytest.mark.parametrize(
    ("kind", "bias", "expected"),
    [("symmetric-relu", 0.3, 0.3), ("relu", -0.3, 0.3), ("relu", 0.3, 0.0)],
)
def test_thresholds_are_the_image_encoders(kind: Any, bias: float, expected: float) -> None:
    study = study_of(encoder=kind)
    encoders = Encoders(kind, torch.ones(2, 14, 60), torch.full((2, 14), bias))
    decoder = start_decoder(DRAWS, encoders, study)
    torch.testing.assert_close(decoder.input_bias, torch.full((14,), expected))
    assert not start_decoder(DRAWS, None, study).input_bias.any()


def phases(second: int | None = 5, third: int | None = 9) -> Phases:
    first = torch.full((2, 14), 0.02).double()
    last = first + torch.arange(28).view(2, 14).double() / 100 - 0.01
    return Phases(second, third, first, last)


def test_thresholds_of_the_theory_come_from_the_norms_that_phase_two_gained() -> None:
    encoders = some_encoders()
    theory = study_of(bias_schedule="theory")
    found = start_decoder(DRAWS, encoders, theory, phases()).input_bias
    gained = [-0.01 + neuron / 100 for neuron in range(14)]
    expected = [max(gain, 0) ** 0.5 / 2**0.5 for gain in gained]  # Eq. 115
    assert found.tolist() == pytest.approx(expected)
    # Without a phase to compare, or with another schedule, they are the encoder's.
    for study, known in [
        (theory, None),
        (theory, phases(third=None)),
        (theory, phases(second=None, third=None)),
        (study_of(bias_schedule="practical"), phases()),
    ]:
        assert torch.equal(
            start_decoder(DRAWS, encoders, study, known).input_bias, encoders.biases[0]
        )


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])  # in the span, and step by step
@pytest.mark.parametrize(("reduction", "eta_of"), [("sum", 30.0), ("mean", 2 / 60)])
def test_thresholds_of_the_theory_grow(optimiser: Any, reduction: Any, eta_of: float) -> None:
    lr = 0.01 if reduction == "sum" else 10.0
    study = study_of(
        bias_schedule="theory", decoder_optimiser=optimiser, decoder_loss_reduction=reduction,
        decoder_lr=lr if optimiser == "sgd" else 0.01,
    )  # fmt: skip
    sample = high_quality(study)
    start = start_decoder(DRAWS, some_encoders(), study)
    decoder, _ = fit_decoder(DRAWS, start, DICTIONARIES, sample, study)
    growth = 1 + study.decoder_lr * eta_of / study.d  # Eq. 116 for a loss that is a mean
    torch.testing.assert_close(decoder.input_bias, start.input_bias * growth**study.decoder_steps)
    y = sample.text.dense()
    expected = twin(start, sample.image.dense(), lambda step: y, study, growth)
    for name, value in zip(PARAMETERS, expected, strict=True):
        torch.testing.assert_close(getattr(decoder, name), value, rtol=1e-8, atol=1e-10)
    # Other schedules hold them.
    held = study.model_copy(update={"bias_schedule": "practical"})
    decoder, _ = fit_decoder(DRAWS, start, DICTIONARIES, sample, held)
    assert torch.equal(decoder.input_bias, start.input_bias)


def test_thresholds_that_outgrow_everything_silence_the_decoder() -> None:
    study = study_of(bias_schedule="theory", decoder_lr=1e30)
    start = start_decoder(DRAWS, some_encoders(bias=1e3), study)
    sample = high_quality(study)
    decoder, loss = fit_decoder(DRAWS, start, DICTIONARIES, sample, study)
    assert not decoder.hidden(sample.image).any()
    assert loss == pytest.approx(float(sample.text.dense().square().sum()) / 60)


# What can go wrong, and whether it works ----------------------------------------------------------


@pytest.mark.parametrize("data", ["high-quality", "one-hot"])
def test_divergence_is_reported_with_its_step(data: Any) -> None:
    study = study_of(decoder_lr=100.0, decoder_data=data, decoder_steps=400)
    start = start_decoder(DRAWS, some_encoders(bias=0.0), study)
    with pytest.raises(Diverged) as stop:
        fit_decoder(DRAWS, start, DICTIONARIES, high_quality(study), study)
    assert 0 < stop.value.step < 400
