"""Rates: near the truth, intervals that cover it, and what they refuse."""

import numpy as np
import pytest
from scipy.stats import norm

from mispair.audit.rate import Rate, mixture_rate, similar_rate, storey_rate, trusted_rate
from mispair.audit.score import BINS


def p_values(n, rate, shift, generator):
    """Return uniform values for wrong pairs, and for right ones those of shifted scores."""
    wrong = round(rate * n)
    right = norm.sf(generator.normal(shift, 1, n - wrong))
    return np.concatenate([generator.random(wrong), right])


def histogram(values):
    return np.bincount(np.minimum((values * BINS).astype(int), BINS - 1), minlength=BINS)


def counted(values, generator, replicates=50):
    """Return histograms of both halves, measured and resampled."""
    halves = [histogram(values[half::2]) for half in (0, 1)]
    drawn = [generator.multinomial(h.sum(), h / h.sum(), size=replicates) for h in halves]
    return np.stack([np.vstack([h, d]) for h, d in zip(halves, drawn, strict=True)]).astype(float)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.8])
@pytest.mark.parametrize(("shift", "near"), [(4.0, 0.03), (2.0, 0.07)])
def test_the_mixture_is_near_the_truth_and_covers_it(rate, shift, near):
    generator = np.random.default_rng(7)
    covered = 0
    for _ in range(10):
        found = mixture_rate(histogram(p_values(10_000, rate, shift, generator)))
        covered += found.low - 1e-6 <= rate <= found.high + 1e-6
        assert abs(found.value - rate) < near
    assert covered >= 9


def test_the_interval_of_a_weak_model_is_wide_and_of_a_strong_one_narrow():
    generator = np.random.default_rng(0)
    weak, strong = (
        mixture_rate(histogram(p_values(2000, 0.3, shift, generator))) for shift in (1.0, 5.0)
    )
    assert weak.high - weak.low > 2 * (strong.high - strong.low)
    assert weak.low <= 0.3 <= weak.high


def test_dependent_pairs_widen_the_interval():
    values = histogram(p_values(5000, 0.3, 3, np.random.default_rng(1)))
    independent, dependent = mixture_rate(values), mixture_rate(values, 4.0)
    assert dependent.high - dependent.low > 1.6 * (independent.high - independent.low)


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.8])
def test_storey_is_near_the_truth_with_a_strong_model(rate):
    generator = np.random.default_rng(3)
    found = storey_rate(counted(generator.permutation(p_values(10_000, rate, 4, generator)),
                                   generator))  # fmt: skip
    assert found.value == pytest.approx(rate, abs=0.03)
    assert np.isnan(found.low)
    assert found.value <= found.high
    assert rate <= found.high < rate + 0.04
    assert found.tail >= 0.5


def test_storey_is_too_large_on_average_with_a_weak_model():
    generator = np.random.default_rng(4)
    found = [
        storey_rate(
            counted(generator.permutation(p_values(4000, 0.1, 1, generator)), generator, 5)
        ).value
        for _ in range(10)
    ]
    assert np.mean(found) > 0.1


def test_trusted_pairs_make_a_weak_model_useful():
    generator = np.random.default_rng(5)
    covered = 0
    for _ in range(50):
        values = p_values(4000, 0.3, 0.8, generator)
        known = np.zeros(4000, bool)
        known[1200 + generator.permutation(2800)[:400]] = True
        found = trusted_rate(values, known)
        covered += found.low <= 0.3 <= found.high
    assert covered >= 44


@pytest.mark.parametrize(
    ("number", "shift", "words"), [(10, 3, "at least 20"), (500, 0.0, "not enough to tell")]
)
def test_trusted_pairs_that_tell_nothing_are_refused(number, shift, words):
    values = p_values(2000, 0.0, shift, np.random.default_rng(6))
    known = np.arange(2000) < number
    with pytest.raises(ValueError, match=words):
        trusted_rate(values, known)


def test_captions_of_similar_pictures_are_a_rate_of_their_own():
    """Three kinds of ranks with known means: the share of the third is solved for."""
    generator = np.random.default_rng(8)
    covered = 0
    for _ in range(50):
        right, unrelated, similar = (
            generator.beta(*shape, n)
            for shape, n in (((1, 6), 6000), ((1, 1), 1000), ((1, 1.3), 3000))
        )
        values = np.concatenate([right, unrelated, similar])
        known = np.arange(10_000) < 1000
        of_unrelated = Rate(0.1 / 0.9, 0.1 / 0.9, 0.1 / 0.9)
        found = similar_rate(values, known, generator.beta(1, 1.3, 1000), of_unrelated)
        covered += found.low <= 0.3 <= found.high
    assert covered >= 44
