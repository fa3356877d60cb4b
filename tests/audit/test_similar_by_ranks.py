"""The share of captions of similar pictures of an audit, from simulated ranks: size and power."""

import numpy as np
import pytest
from scipy.stats import norm

from mispair.audit.rate import trusted_rate
from mispair.audit.score import BINS
from mispair.audit.similar import SimilarRate, audited_similar_rate
from tests.audit.made_up import kinds, ranks_near


def rate(
    seed: int, unrelated: float, similar: float, wins: float = 0.95, pairs: int = 2000,
    trusted: int = 300,
) -> SimilarRate:  # fmt: skip
    """Return the rate of a made-up corpus; right captions win a share of random comparisons."""
    generator = np.random.default_rng([seed, round(100 * unrelated), round(1000 * wins)])
    kind = kinds(generator, unrelated, similar, pairs)
    near, swapped, _ = ranks_near(generator, kind)
    lead = norm.ppf(wins) * 2**0.5 * np.choose(kind, [1, 0, 0.75])
    p_values = norm.sf(generator.normal(lead, 1))
    is_trusted = np.zeros(pairs, bool)
    is_trusted[generator.permutation(np.flatnonzero(kind == 0))[:trusted]] = True
    of_trusted = trusted_rate(p_values, is_trusted)
    return audited_similar_rate(
        near, is_trusted, swapped[is_trusted], p_values, of_trusted, BINS, 1.0
    )


@pytest.mark.parametrize(
    ("unrelated", "wins"), [(0.0, 0.998), (0.3, 0.87), (0.3, 0.998), (0.8, 0.998), (0.85, 0.87)]
)
def test_without_similar_captions_none_are_reported(unrelated: float, wins: float) -> None:
    found = [rate(seed, unrelated, 0.0, wins, trusted=200) for seed in range(15)]
    assert sum(one.is_known for one in found) <= 1
    # The interval is that of 95 %, and an audit reports it at a stricter level.
    assert all(one.low > 0 for one in found if one.is_known)


@pytest.mark.parametrize(("unrelated", "similar"), [(0.0, 0.2), (0.2, 0.3), (0.5, 0.2)])
def test_moderate_shares_of_similar_captions_are_found(unrelated: float, similar: float) -> None:
    found = [rate(seed, unrelated, similar) for seed in range(10)]
    assert sum(one.is_known for one in found) >= 8
    assert sum(one.low <= similar <= one.high for one in found) >= 8
