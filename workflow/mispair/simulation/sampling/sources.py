"""Where the batches of a training run come from: fresh pairs, fixed ones, or a mixture."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from mispair.simulation.sampling.data import (
    Dictionaries,
    Sample,
    draw_fresh_noise,
    draw_pairs,
    joined,
)
from mispair.simulation.sampling.draws import Draws
from mispair.simulation.sampling.inputs import Batch, Coded, Inputs
from mispair.simulation.sampling.misalignment import SpuriousSets
from mispair.simulation.study import Study


class FreshSource:
    """Pairs of S_w that are drawn for one step and never met again.

    Parameters
    ----------
    draws : Draws
        Of the trial.
    name : str
        Of the arm; with the step it names the draws.
    dictionaries : Dictionaries
        Of the trial.
    study : Study
        Settings.
    spurious_probability : float
        C_s.
    spurious : SpuriousSets
        Of the trial.
    """

    def __init__(
        self,
        draws: Draws,
        name: str,
        dictionaries: Dictionaries,
        study: Study,
        spurious_probability: float,
        spurious: SpuriousSets,
    ) -> None:
        self.steps_per_epoch = study.steps_per_epoch
        self._draws, self._name, self._dictionaries = draws, name, dictionaries
        self._study, self._spurious = study, spurious
        self._spurious_probability = spurious_probability

    def batch(self, step: int) -> Batch:
        """Draw the batch of a step."""
        return Batch(*self.draw(step, self._study.batch_size))

    def draw(self, step: int, n: int) -> tuple[Coded, Coded]:
        """Draw `n` images and captions of a step."""
        draws, study = self._draws, self._study
        generator = draws.generator(self._name, step)
        pairs = draw_pairs(draws, generator, n, study, self._spurious_probability, self._spurious)
        text_noise = draw_fresh_noise(draws, generator, n, study.std("text_noise"), study)
        image_noise = draw_fresh_noise(draws, generator, n, study.std("image_noise"), study)
        return (
            Coded(pairs.image, self._dictionaries.image, *image_noise),
            Coded(pairs.text, self._dictionaries.text, *text_noise),
        )


class FixedSource:
    """Fixed samples, gone through in a new order at every pass.

    Passes follow each other without a gap: a batch may hold the end of one and the beginning of
    the next. A sample smaller than a batch is met whole at every step.

    Parameters
    ----------
    draws : Draws
        Of the trial.
    name : str
        Of the arm; names the orders.
    samples : sequence of Sample
        Used as one.
    study : Study
        Says how large a batch is.
    steps_per_epoch : int or None
        Steps that count as an epoch; by default the study's.
    """

    def __init__(
        self,
        draws: Draws,
        name: str,
        samples: Sequence[Sample],
        study: Study,
        steps_per_epoch: int | None = None,
    ) -> None:
        self.steps_per_epoch = steps_per_epoch or study.steps_per_epoch
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
    """A fixed sample mixed with pairs of S_w that are drawn afresh whenever they are met.

    An epoch has a place for every pair of the sample and for `raw_pairs` fresh ones, and goes
    through its places in an order of its own. What does not fill a batch is left out, as in the
    public code.

    Parameters
    ----------
    draws : Draws
        Of the trial.
    fixed : Sample
        In coded form, as samples are with fresh data.
    raw_pairs : int
        Fresh pairs in an epoch; 0 for the fixed sample only.
    name : str
        Of the arm; with the step it names the draws, with the epoch the order.
    dictionaries : Dictionaries
        Of the trial.
    study : Study
        Settings.
    spurious_probability : float
        C_s of the fresh pairs.
    spurious : SpuriousSets
        Of the trial.
    """

    def __init__(
        self,
        draws: Draws,
        fixed: Sample,
        raw_pairs: int,
        name: str,
        dictionaries: Dictionaries,
        study: Study,
        spurious_probability: float,
        spurious: SpuriousSets,
    ) -> None:
        rows = len(fixed) + raw_pairs
        if not rows:
            raise ValueError("there are no pairs to train on")
        self._size = min(study.batch_size, rows)
        self.steps_per_epoch = rows // self._size
        self._fixed = fixed
        self._fresh = FreshSource(draws, name, dictionaries, study, spurious_probability, spurious)
        self._orders = _Orders(draws, (name, "order"), rows)

    def batch(self, step: int) -> Batch:
        """Gather and draw the batch of a step: fresh pairs, then those of the sample."""
        epoch, within = divmod(step, self.steps_per_epoch)
        begin = epoch * self._orders.length + within * self._size
        members = self._orders.between(begin, begin + self._size)
        fixed = self._fixed.take(members[members < len(self._fixed)])
        image, text = self._fresh.draw(step, self._size - len(fixed.image))
        return Batch(_followed(image, fixed.image), _followed(text, fixed.text))


def _followed(fresh: Coded, fixed: Inputs) -> Coded:
    """Put rows of a sample after fresh ones, whose coefficients are a sample's first."""
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
    """An endless stream of permutations of the same length, on the CPU, read at any place."""

    def __init__(self, draws: Draws, name: tuple[object, ...], length: int) -> None:
        self.length = length
        self._draws, self._name = draws, name
        self._known: dict[int, Tensor] = {}

    def between(self, begin: int, end: int) -> Tensor:
        """Return the entries at the places from `begin` up to `end`."""
        passes = range(begin // self.length, (end - 1) // self.length + 1)
        self._known = {
            number: self._known[number] if number in self._known else self._drawn(number)
            for number in passes
        }
        start = passes.start * self.length
        return torch.cat([self._known[number] for number in passes])[begin - start : end - start]

    def _drawn(self, number: int) -> Tensor:
        generator = self._draws.generator(*self._name, number)
        return torch.randperm(self.length, generator=generator)
