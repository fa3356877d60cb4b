"""The size and power of tests whose replicates share draws, on simulated data.

The size is the share of true null hypotheses that a test at 5 % rejects. Replicates share draws as
they do in the studies: a trial has the same dictionaries at every C_s, a draw of swaps has its own
effect at every rate.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mispair.report.statistics import contrast, effect_of_mean, trend, trial_means

TIMES = 3000
ALPHA, CONFIDENCE = 0.05, 0.95
PROBABILITIES = (0.1, 0.3, 0.5, 0.7)


def share(test: Callable[[np.random.Generator], bool], times: int = TIMES) -> float:
    """Return how often a test on newly drawn data is positive."""
    draw = np.random.default_rng(17)
    return sum(bool(test(draw)) for _ in range(times)) / times


def gains(draw: np.random.Generator, effect: float, trials: int, shared: float) -> pd.Series:
    """Return gains by C_s and trial, of variance 1, whose trials share a part of it."""
    values = np.sqrt(1 - shared) * draw.normal(size=(len(PROBABILITIES), trials))
    values += np.sqrt(shared) * draw.normal(size=trials) + effect
    index = pd.MultiIndex.from_product(
        [PROBABILITIES, range(trials)], names=["spurious_probability", "trial"]
    )
    return pd.Series(values.ravel(), index=index)


def test_trials_that_share_their_data_at_every_probability():
    shared = 0.7

    def rejects(effect: float) -> Callable[[np.random.Generator], bool]:
        def test(draw: np.random.Generator) -> bool:
            values = gains(draw, effect, 6, shared)
            return effect_of_mean(trial_means(values), CONFIDENCE, "trial").p <= ALPHA

        return test

    assert share(rejects(0.0), 1500) == pytest.approx(0.05, abs=0.012)
    # The mean of a trial has the variance shared + (1 − shared) / 4.
    error = np.sqrt((shared + (1 - shared) / 4) / 6)
    edge, centre = stats.t.ppf(0.975, 5), 1.5 / error
    power = stats.nct.sf(edge, 5, centre) + stats.nct.cdf(-edge, 5, centre)
    assert share(rejects(1.5), 300) == pytest.approx(power, abs=0.06)


def sweep(draw: np.random.Generator, draws: int, seeds: int, shared: float) -> pd.DataFrame:
    """Return values at five rates without an effect of the rate, by draw of swaps and seed.

    What a draw does at a rate is the same for all its seeds.
    """
    values = np.sqrt(1 - shared) * draw.normal(size=(draws, seeds, 5))
    values += np.sqrt(shared) * draw.normal(size=(draws, 1, 5))
    places = np.indices(values.shape).reshape(3, -1)
    return pd.DataFrame(
        {"draw": places[0], "seed": places[0] * seeds + places[1], "rate": places[2] / 5,
         "value": values.ravel()}
    )  # fmt: skip


def test_a_contrast_over_draws_has_its_size():
    def rejects(draw: np.random.Generator) -> bool:
        return contrast(sweep(draw, 5, 1, 0.5), CONFIDENCE, "draw").p <= ALPHA

    assert share(rejects, 600) == pytest.approx(0.05, abs=0.02)


def test_blocks_of_a_trend_have_to_be_draws():
    """Three seeds of one draw go the same way by chance; three draws do not."""

    def rejects(draws: int, seeds: int) -> Callable[[np.random.Generator], bool]:
        def test(draw: np.random.Generator) -> bool:
            rows = sweep(draw, draws, seeds, 0.9)
            found = trend(rows["rate"].tolist(), rows["value"].tolist(), rows["seed"].tolist())
            return found.p <= ALPHA

        return test

    assert share(rejects(3, 1), 300) == pytest.approx(0.05, abs=0.03)
    assert share(rejects(1, 3), 300) > 0.15
