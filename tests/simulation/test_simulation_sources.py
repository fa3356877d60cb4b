"""Batches: which pairs they hold, and that they are functions of the step alone."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from mispair.simulation.inputs import Batch, BatchSource, Dense
from mispair.simulation.pairs import LatentPairs, Population, draw_dictionaries, draw_spurious_sets
from mispair.simulation.samples import (
    CodedSample,
    FixedSample,
    FixedSource,
    FreshSource,
    MixedSource,
)
from mispair.simulation.study import Study
from mispair.simulation.trial import Trial
from tests.simulation.test_simulation_data import changed, draws

SIZES: dict[str, Any] = {
    "d1": 60, "d": 10, "m": 12, "classes": 5, "batch_size": 40, "low_quality_pairs": 170,
    "high_quality_pairs": 30, "steps_per_epoch": 5, "test_margin": 1,
}  # fmt: skip
STUDY = Study(**SIZES)
FIXED = Study(preset="as-written", **SIZES)


DICTIONARIES = draw_dictionaries(draws(), 60, 10)


def population(study: Study, rate: float = 0.3, trial: int = 0, seed: int = 0) -> Population:
    spurious = draw_spurious_sets(draws(), study)
    return Population(draws(trial, seed), study, DICTIONARIES, spurious, rate)


def fresh_source(study: Study, name: str = "raw", trial: int = 0, seed: int = 0) -> FreshSource:
    return FreshSource(population(study, trial=trial, seed=seed), name)


def numbered(n: int, start: int = 0) -> FixedSample:
    """A sample whose pairs carry their number."""
    number = torch.arange(start, start + n, dtype=torch.float32)[:, None]
    codes = number.expand(n, 10)
    pairs = LatentPairs(codes, codes, torch.zeros(n, dtype=torch.bool))
    return FixedSample(Dense(number.expand(n, 60)), Dense(-number.expand(n, 60)), pairs)


def numbers(batch: Batch) -> list[int]:
    image, text = batch.image.dense(), batch.text.dense()
    assert torch.equal(image, -text)  # pairs stay together
    return [int(value) for value in image[:, 0]]


def test_a_fresh_batch_depends_on_seed_trial_arm_and_step_only() -> None:
    def content(source: FreshSource, step: int) -> bytes:
        batch = source.batch(step)
        image, text = batch.image, batch.text
        parts = (image.codes, text.codes, text.fresh.seen, text.fresh.unseen)
        return b"".join(part.numpy().tobytes() for part in parts)

    source = fresh_source(STUDY)
    first = content(source, 7)
    torch.rand(5)  # draws of others do not matter
    for step in (3, 9):
        content(source, step)
    assert content(source, 7) == content(fresh_source(STUDY), 7) == first
    others = [
        content(source, 8),
        content(fresh_source(STUDY, "filtered"), 7),
        content(fresh_source(STUDY, trial=1), 7),
        content(fresh_source(STUDY, seed=1), 7),
    ]
    assert len({first, *others}) == 5


def test_fresh_batches_have_noise_on_both_sides_where_asked() -> None:
    study = changed(STUDY, image_noise=0.5)
    batch = fresh_source(study).batch(0)
    found = [side.fresh for side in (batch.image, batch.text)]
    assert [noise.std for noise in found if noise is not None] == [0.5, 0.24]
    # What C_s decides is not what is drawn.
    other = FreshSource(population(study, 0.0), "raw").batch(0)
    assert torch.equal(other.image.codes, batch.image.codes)
    other_noise = other.text.fresh
    assert torch.equal(other_noise.seen, found[1].seen)


@pytest.mark.parametrize("sizes", [[130], [100, 30], [40], [41, 0, 6]])
def test_every_pass_meets_every_pair_once(sizes: list[int]) -> None:
    starts = np.cumsum([0, *sizes])
    samples = [numbered(n, int(start)) for n, start in zip(sizes, starts, strict=False)]
    n, steps = sum(sizes), 3 * sum(sizes) // 40 + 1
    source = FixedSource(draws(), "raw", samples, STUDY)
    assert source.steps_per_epoch == 5
    batches = [numbers(source.batch(step)) for step in range(steps)]
    for batch in batches:
        assert len(batch) == 40
        assert batch == sorted(batch)
    # A batch that straddles two passes holds the rest of one and the beginning of the next.
    met = np.zeros(n, dtype=int)
    for step, batch in enumerate(batches):
        np.add.at(met, batch, 1)
        whole, rest = divmod(40 * (step + 1), n)
        assert set(np.unique(met)) <= {whole, whole + 1}
        assert int((met == whole + 1).sum()) == rest


def test_passes_have_orders_of_their_own_and_batches_no_memory() -> None:
    source = FixedSource(draws(), "raw", [numbered(80)], STUDY)
    forwards = [numbers(source.batch(step)) for step in range(8)]
    backwards = [numbers(source.batch(step)) for step in reversed(range(8))]
    assert forwards == backwards[::-1]
    assert len({tuple(batch) for batch in forwards}) == 8
    again = FixedSource(draws(), "filtered", [numbered(80)], STUDY)
    assert numbers(again.batch(0)) != forwards[0]
    order = torch.randperm(80, generator=draws().generator("order", "raw", 1))
    assert forwards[3] == sorted(order[40:].tolist())


def test_a_sample_smaller_than_a_batch_is_met_whole() -> None:
    source = FixedSource(draws(), "raw", [numbered(7)], STUDY)
    for step in range(3):
        assert numbers(source.batch(step)) == list(range(7))


def filtered_sample(n: int) -> tuple[FixedSample, np.ndarray]:
    """A sample as S3 leaves it, with noise on kept captions; and which were replaced."""
    generator = torch.Generator().manual_seed(0)
    replaced = torch.rand(n, generator=generator) < 0.4
    kept = (~replaced).numpy()
    noise_row = np.where(kept, np.cumsum(kept) - 1, -1)
    codes = torch.rand(n, 10, generator=generator)
    width = 10 + 12 + 1
    image = CodedSample(codes, DICTIONARIES.image, torch.empty(0, 60), torch.full((n,), -1))
    text = CodedSample(
        torch.rand(n, width, generator=generator),
        torch.cat([DICTIONARIES.text, torch.randn(13, 60, generator=generator)]),
        torch.randn(int(kept.sum()), 60, generator=generator),
        torch.from_numpy(noise_row),
    )
    return FixedSample(image, text, LatentPairs(codes, codes, replaced)), replaced.numpy()


@pytest.mark.parametrize("raw_pairs", [0, 50, 110])
def test_as_run_mixtures_are_what_they_were(raw_pairs: int) -> None:
    """Against the formulas the study had before it knew any other data."""
    sample, replaced = filtered_sample(90)
    source = MixedSource(population(STUDY), "filtered", sample, raw_pairs)
    assert source.steps_per_epoch == (90 + raw_pairs) // 40
    for step in (0, 1, source.steps_per_epoch, 7):
        batch = source.batch(step)
        image, text = batch.image, batch.text
        epoch, within = divmod(step, source.steps_per_epoch)
        generator = draws().generator("filtered", "order", epoch)
        order = torch.randperm(90 + raw_pairs, generator=generator).numpy()
        members = order[within * 40 : (within + 1) * 40]
        members = members[members < 90]
        kept = members[~replaced[members]]
        members = np.concatenate([kept, members[replaced[members]]])
        count = 40 - len(members)
        generator = draws().generator("filtered", step)
        codes = (torch.rand(2, count, 10, generator=generator) < 0.1).float()
        redrawn = torch.rand(count, generator=generator) < 0.3
        raw_text = pad(torch.where(redrawn[:, None], codes[1], codes[0]), (0, 13))
        stored = sample.text.noise[sample.text.noise_row[kept]]
        rows = torch.from_numpy(members)
        assert torch.equal(image.codes, torch.cat([codes[0], sample.pairs.image[rows]]))
        assert torch.equal(text.codes, torch.cat([raw_text, sample.text.codes[rows]]))
        assert torch.equal(text.rows, sample.text.rows)
        assert text.stored is not None
        assert torch.equal(text.stored, stored)
        if count:
            assert torch.equal(text.fresh.seen, torch.randn(count, 12, generator=generator))
            assert torch.equal(text.fresh.unseen, torch.randn(12, 60, generator=generator))
        else:
            assert text.fresh is None


def test_a_mixture_too_small_for_a_batch_is_one_batch() -> None:
    sample, _ = filtered_sample(12)
    source = MixedSource(population(STUDY), "filtered", sample, 0)
    assert source.steps_per_epoch == 1
    assert len(source.batch(5).image) == 12


def source_of(study: Study) -> tuple[BatchSource, FixedSample, FixedSample]:
    trial = Trial(study, 0.3, draws())
    return trial.pretraining().source, trial.high_quality, trial.low_quality


def rows_of(batches: list[Batch], side: str) -> Tensor:
    return torch.cat([getattr(batch, side).dense() for batch in batches])


def contains(rows: Tensor, wanted: Tensor) -> Tensor:
    """Return how often each wanted row occurs."""
    return (torch.cdist(wanted.double(), rows.double()) < 1e-4).sum(dim=1)


@pytest.mark.parametrize("high_quality_noise", [0.016, 0.0])
def test_fresh_pairs_mix_with_the_high_quality_ones(high_quality_noise: float) -> None:
    """Fresh pairs without noise, which have coordinates; stored noise belongs to rows of S_h."""
    study = changed(
        STUDY, pretrain_on_high_quality=True, text_noise=0.0, latent_density=0.5,
        high_quality_noise=high_quality_noise,
    )  # fmt: skip
    source, high, _ = source_of(study)
    assert source.steps_per_epoch == 5
    batches = [source.batch(step) for step in range(5)]
    assert all(len(batch.image) == len(batch.text) == 40 for batch in batches)
    if high_quality_noise:
        assert (contains(rows_of(batches, "text"), high.text.dense()) == 1).all()
    # Pairs stay together: what the two sides share is the latent code.
    images = rows_of(batches, "image") @ DICTIONARIES.image.T
    texts = rows_of(batches, "text") @ DICTIONARIES.text.T
    moment = ((images - 0.5) * (texts - 0.5)).mean()
    assert float(moment) == pytest.approx(0.25 * (1 - 0.3 * 170 / 200), abs=0.04)
    noise = rows_of(batches, "text") - texts @ DICTIONARIES.text
    energy = 30 * high_quality_noise**2 / 200 * 50
    assert float(noise.square().sum(dim=1).mean()) == pytest.approx(energy, rel=0.1, abs=1e-9)


@pytest.mark.parametrize("with_high_quality", [True, False])
def test_fixed_pretraining_goes_through_what_the_study_says(with_high_quality: bool) -> None:
    study = changed(FIXED, pretrain_on_high_quality=with_high_quality)
    source, high, low = source_of(study)
    assert isinstance(source, FixedSource)
    rows = rows_of([source.batch(step) for step in range(5)], "image")
    assert (contains(rows, low.image.dense()) >= 1).all()
    assert (contains(rows, high.image.dense()) == int(with_high_quality)).all()


def test_fresh_pretraining_draws_anew() -> None:
    assert isinstance(source_of(STUDY)[0], FreshSource)
