"""Samples of pairs with their noise, fixed or fresh, and the batches of a training.

S_h and S_w are fixed samples; with fresh data, S_w is drawn for each step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from mispair.simulation.inputs import Batch, Coded, Dense, FreshNoise, Inputs
from mispair.simulation.pairs import (
    LatentPairs,
    Population,
    TrialDraws,
    draw_codes,
    draw_pairs,
)
from mispair.simulation.study import Study


@dataclass(frozen=True)
class CodedSample:
    """One modality of a fixed sample as codes @ rows + noise, with noise on any of its rows.

    Attributes
    ----------
    codes : Tensor (n, k)
        Coefficients.
    rows : Tensor (k, d1)
        Vectors that the codes combine.
    noise : Tensor (s, d1)
        Noise of some rows, as it is added.
    noise_row : Tensor (n,) of int64
        Row of `noise` that belongs to a row of `codes`; -1 for one without noise.
    """

    codes: Tensor
    rows: Tensor
    noise: Tensor
    noise_row: Tensor

    def __len__(self) -> int:
        return len(self.codes)

    def product(self, weights: Tensor) -> Tensor:
        """Return X Wᵀ."""
        result = self.codes @ (self.rows @ weights.T)
        noisy = self.noise_row >= 0
        result[noisy] += (self.noise @ weights.T)[self.noise_row[noisy]]
        return result

    def accumulate(self, gradient: Tensor, weights: Tensor, out: Tensor) -> None:
        """Add Gᵀ X to `out`."""
        out.addmm_(gradient.T @ self.codes, self.rows)
        noisy = self.noise_row >= 0
        out.addmm_(gradient[noisy].T, self.noise[self.noise_row[noisy]])

    def dense(self) -> Tensor:
        """Return X."""
        result = self.codes.new_zeros(len(self.codes), self.rows.shape[1])
        noisy = self.noise_row >= 0
        result[noisy] = self.noise[self.noise_row[noisy]]
        return result.addmm_(self.codes, self.rows)


@dataclass(frozen=True)
class FixedSample:
    """A fixed sample of pairs.

    Attributes
    ----------
    image, text : Dense or CodedSample (n, d1)
        Images and captions. Images have noise on all rows or on none, captions on any rows.
    pairs : LatentPairs
        Their latent codes as drawn; a generated caption has those of the caption that it replaced.
    """

    image: Dense | CodedSample
    text: Dense | CodedSample
    pairs: LatentPairs

    def __len__(self) -> int:
        return len(self.pairs.image)

    def take(self, rows: Tensor) -> Batch:
        """Gather the pairs `rows` (B,), those with noisy captions first, else in that order."""
        if isinstance(self.text, CodedSample):
            noisy = self.text.noise_row[rows] >= 0
            rows = torch.cat([rows[noisy], rows[~noisy]])
        return Batch(_take(self.image, rows), _take(self.text, rows))


def _take(inputs: Dense | CodedSample, rows: Tensor) -> Dense | Coded:
    if isinstance(inputs, Dense):
        return Dense(inputs.values.index_select(0, rows))
    noise_row = inputs.noise_row[rows]
    stored = inputs.noise.index_select(0, noise_row[noise_row >= 0])
    codes = inputs.codes.index_select(0, rows)
    return Coded(codes, inputs.rows, stored=stored if len(stored) else None)


def joined(samples: Sequence[FixedSample]) -> FixedSample:
    """Put samples one after the other; one sample is returned as it is.

    Coded captions of several widths must share the rows of the narrower ones, as generated captions
    do, whose first rows are the text dictionary.
    """
    if len(samples) == 1:
        return samples[0]
    pairs = (sample.pairs for sample in samples)
    columns = zip(*((p.image, p.text, p.misaligned) for p in pairs), strict=True)
    return FixedSample(
        _joined([sample.image for sample in samples]),
        _joined([sample.text for sample in samples]),
        LatentPairs(*(torch.cat(column) for column in columns)),
    )


def _joined(parts: Sequence[Dense | CodedSample]) -> Dense | CodedSample:
    coded = [part for part in parts if isinstance(part, CodedSample)]
    if len(coded) < len(parts):
        return Dense(torch.cat([part.dense() for part in parts]))
    widest = max(coded, key=lambda part: part.codes.shape[1])
    width = widest.codes.shape[1]
    noise_rows, count = [], 0
    for part in coded:
        noise_rows.append(torch.where(part.noise_row < 0, -1, part.noise_row + count))
        count += len(part.noise)
    return CodedSample(
        codes=torch.cat([pad(part.codes, (0, width - part.codes.shape[1])) for part in coded]),
        rows=widest.rows,
        noise=torch.cat([part.noise for part in coded]),
        noise_row=torch.cat(noise_rows),
    )


def draw_high_quality(population: Population) -> FixedSample:
    """Draw S_h: aligned pairs (assumption 3.2)."""
    draws, study = population.draws, population.study
    generator = draws.generator("high-quality")
    codes = draw_codes(draws, generator, study.high_quality_pairs, study)
    aligned = torch.zeros(len(codes), dtype=torch.bool)
    return _with_noise(
        population, generator, LatentPairs(codes, codes, aligned), "high_quality_noise"
    )


def draw_low_quality(population: Population) -> FixedSample:
    """Draw S_w (assumption 3.3); with fresh data, the pairs that S3 filters."""
    study = population.study
    generator = population.draws.generator("filter" if study.data == "fresh" else "low-quality")
    pairs = draw_pairs(population, generator, study.low_quality_pairs)
    return _with_noise(population, generator, pairs, "text_noise")


def _with_noise(
    population: Population, generator: torch.Generator, pairs: LatentPairs, text_noise: str
) -> FixedSample:
    draws, study, rows = population.draws, population.study, population.dictionaries
    text = _fixed_inputs(draws, generator, pairs.text, rows.text, text_noise, study)
    image = _fixed_inputs(draws, generator, pairs.image, rows.image, "image_noise", study)
    return FixedSample(image, text, pairs)


def _fixed_inputs(
    draws: TrialDraws,
    generator: torch.Generator,
    codes: Tensor,
    rows: Tensor,
    name: str,
    study: Study,
) -> Dense | CodedSample:
    """Add noise; samples that are mixed with fresh pairs stay coded, like these pairs."""
    n, std = len(codes), study.std(name)
    if std == 0:
        nowhere = torch.full((n,), -1)
        return CodedSample(codes, rows, codes.new_zeros(0, study.d1), nowhere)
    noise = draws.normal(generator, n, study.d1).mul_(std)
    if study.data == "fresh":
        return CodedSample(codes, rows, noise, torch.arange(n))
    if study.dictionaries == "axes":
        noise[:, : study.d].add_(codes)
        return Dense(noise)
    return Dense(noise.addmm_(codes, rows))


# Batches of a training run: fresh pairs, fixed ones, or a mixture.


def draw_fresh_noise(
    draws: TrialDraws, generator: torch.Generator, n: int, std: float, study: Study
) -> FreshNoise | None:
    """Draw noise (n, d1) for one step in projected form; None if there is none."""
    if std == 0 or n == 0:
        return None
    seen = draws.normal(generator, n, study.m)
    return FreshNoise(std, seen, draws.normal(generator, study.m, study.d1))


class FreshSource:
    """Pairs of S_w that are drawn for one step and never used again.

    The arm's name and the step identify the draws.
    """

    def __init__(self, population: Population, name: str) -> None:
        self.steps_per_epoch = population.study.steps_per_epoch
        self._population, self._name = population, name

    def batch(self, step: int) -> Batch:
        """Draw the batch of a step."""
        return Batch(*self.draw(step, self._population.study.batch_size))

    def draw(self, step: int, n: int) -> tuple[Coded, Coded]:
        """Draw `n` images and captions of a step."""
        draws, study = self._population.draws, self._population.study
        generator = draws.generator(self._name, step)
        pairs = draw_pairs(self._population, generator, n)
        text_noise = draw_fresh_noise(draws, generator, n, study.std("text_noise"), study)
        image_noise = draw_fresh_noise(draws, generator, n, study.std("image_noise"), study)
        rows = self._population.dictionaries
        return (
            Coded(pairs.image, rows.image, image_noise),
            Coded(pairs.text, rows.text, text_noise),
        )


class FixedSource:
    """Fixed samples, joined into one and read in a new order at every pass.

    Passes follow each other without a gap: a batch may hold the end of one and the beginning of the
    next. A sample smaller than a batch is a whole batch at every step. The arm's name identifies
    the orders.
    """

    def __init__(
        self, draws: TrialDraws, name: str, samples: Sequence[FixedSample], study: Study
    ) -> None:
        self.steps_per_epoch = study.steps_per_epoch
        self._sample = joined(samples)
        self._orders = _Orders(draws, ("order", name), len(self._sample))
        self._size = min(study.batch_size, len(self._sample))

    def batch(self, step: int) -> Batch:
        """Gather the batch of a step."""
        rows = self._orders.between(step * self._size, (step + 1) * self._size)
        return self._sample.take(rows.sort().values)  # sorted: memory is read in one direction


class MixedSource:
    """A fixed sample mixed with pairs of S_w that are drawn afresh at every access.

    An epoch holds every pair of the sample, which is in coded form, and `raw_pairs` fresh ones, in
    an order of its own. Pairs that do not fill a batch are left out, as in the public code. The
    arm's name and the step identify the draws; the arm's name and the epoch identify the orders.
    """

    def __init__(
        self, population: Population, name: str, fixed: FixedSample, raw_pairs: int
    ) -> None:
        rows = len(fixed) + raw_pairs
        self._size = min(population.study.batch_size, rows)
        self.steps_per_epoch = rows // self._size
        self._fixed, self._fresh = fixed, FreshSource(population, name)
        self._orders = _Orders(population.draws, (name, "order"), rows)

    def batch(self, step: int) -> Batch:
        """Gather and draw the batch of a step: fresh pairs, then those of the sample."""
        epoch, within = divmod(step, self.steps_per_epoch)
        begin = epoch * self._orders.length + within * self._size
        members = self._orders.between(begin, begin + self._size)
        fixed = self._fixed.take(members[members < len(self._fixed)])
        image, text = self._fresh.draw(step, self._size - len(fixed.image))
        return Batch(_followed(image, fixed.image), _followed(text, fixed.text))


def _followed(fresh: Coded, fixed: Inputs) -> Coded:
    """Put rows of a sample after fresh ones; these have the first of the sample's coefficients."""
    assert isinstance(fixed, Coded)
    stored = fixed.stored
    if stored is not None and fresh.fresh is None:
        # Stored noise belongs to the first rows, and these have none.
        stored = torch.cat([stored.new_zeros(len(fresh), stored.shape[1]), stored])
    codes = pad(fresh.codes, (0, fixed.codes.shape[1] - fresh.codes.shape[1]))
    return Coded(torch.cat([codes, fixed.codes]), fixed.rows, fresh.fresh, stored)


class _Orders:
    """An endless stream of permutations of the same length, read at any position."""

    def __init__(self, draws: TrialDraws, name: tuple[object, ...], length: int) -> None:
        self.length = length
        self._draws, self._name = draws, name
        self._drawn: dict[int, Tensor] = {}

    def between(self, begin: int, end: int) -> Tensor:
        """Return the entries at the positions from `begin` up to `end`."""
        passes = range(begin // self.length, (end - 1) // self.length + 1)
        drawn, self._drawn = self._drawn, {}
        for number in passes:
            self._drawn[number] = drawn[number] if number in drawn else self._draw(number)
        start = passes.start * self.length
        return torch.cat([*self._drawn.values()])[begin - start : end - start]

    def _draw(self, number: int) -> Tensor:
        generator = self._draws.generator(*self._name, number)
        return torch.randperm(self.length, generator=generator)
