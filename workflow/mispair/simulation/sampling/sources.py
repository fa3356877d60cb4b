"""Batches of a training run: fresh pairs, fixed ones, or a mixture."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from mispair.simulation.sampling.data import (
    FixedSample,
    Population,
    draw_fresh_noise,
    draw_pairs,
    joined,
)
from mispair.simulation.sampling.draws import TrialDraws
from mispair.simulation.sampling.inputs import Batch, Coded, Inputs
from mispair.simulation.study import Study


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
            Coded(pairs.image, rows.image, *image_noise),
            Coded(pairs.text, rows.text, *text_noise),
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
        if not len(self._sample):
            raise ValueError("there are no pairs to train on")
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
        if not rows:
            raise ValueError("there are no pairs to train on")
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
    if not isinstance(fixed, Coded):
        raise ValueError("fresh pairs can be mixed with a sample in coded form only")
    stored = [noise for noise in (fresh.stored, fixed.stored) if noise is not None]
    if fixed.stored is not None and fresh.fresh is None and fresh.stored is None:
        # Stored noise belongs to the first rows, and these have none.
        stored.insert(0, fixed.stored.new_zeros(len(fresh), fixed.stored.shape[1]))
    codes = pad(fresh.codes, (0, fixed.codes.shape[1] - fresh.codes.shape[1]))
    return Coded(
        codes=torch.cat([codes, fixed.codes]),
        rows=fixed.rows,
        fresh=fresh.fresh,
        stored=torch.cat(stored) if stored else None,
    )


class _Orders:
    """An endless stream of permutations of the same length, on the CPU, read at any position."""

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
