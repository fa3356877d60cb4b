"""Each function against that of `scipy.stats`: bit by bit, except for the lower binomial tail."""

import math

import numpy as np
import pytest
from scipy import stats

from mispair.core import distributions as ours

FREEDOM = [1, 2, 3.7, 29, 1e6, math.inf]
VALUES = [-40.0, -1.96, 0.0, 1e-9, 0.3, 2.5, 40.0]
SHARES = [1e-12, 0.025, 0.5, 0.9, 0.975, 1 - 1e-9]


@pytest.mark.parametrize("freedom", FREEDOM)
def test_students_t(freedom: float) -> None:
    for share in SHARES:
        assert ours.t_quantile(share, freedom) == stats.t.ppf(share, freedom)
    for value in VALUES:
        assert ours.t_tail(value, freedom) == stats.t.sf(value, freedom)


def test_the_normal_distribution() -> None:
    for share in SHARES:
        assert ours.normal_quantile(share) == stats.norm.ppf(share)
        assert -ours.normal_quantile(share) == stats.norm.isf(share)
    for value in VALUES:
        assert ours.normal_tail(value) == stats.norm.sf(value)


@pytest.mark.parametrize("shape", [1e-3, 0.4, 1.0, 7.5, 1e4])
def test_the_gamma_distribution(shape: float) -> None:
    for share in SHARES:
        assert ours.gamma_quantile(share, shape) == stats.gamma.ppf(share, shape)


@pytest.mark.parametrize("n", [1, 2, 7, 60])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.9, 1.0])
def test_binomial_tails(n: int, share: float) -> None:
    for count in range(n + 1):
        at_least, at_most = stats.binom.sf(count - 1, n, share), stats.binom.cdf(count, n, share)
        assert ours.binomial_at_least(count, n, share) == at_least
        assert ours.binomial_at_most(count, n, share) == pytest.approx(at_most, rel=1e-14)


@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_ranks_correlations_and_lines(levels: int) -> None:
    draw = np.random.default_rng(levels)
    for n in (3, 4, 17, 200):
        a, b = draw.integers(0, levels, (2, n)) / 7
        a[0], b[0], a[1], b[1] = 0, 1, 1, 0  # not all equal
        assert (ours.ranks(a) == stats.rankdata(a)).all()
        expected = stats.spearmanr(a, b)
        assert ours.rank_correlation(a, b) == (expected.statistic, expected.pvalue)
        line = stats.linregress(a, b)
        assert ours.line(a, b) == (line.slope, line.stderr)


@pytest.mark.filterwarnings("error")
def test_a_perfect_order_is_certain() -> None:
    assert ours.rank_correlation(np.arange(5.0), np.arange(5.0) ** 3)[1] < 1e-20
    assert ours.line([0, 1, 2], [1, 3, 5]) == (2.0, 0.0)
    assert ours.line([0, 1, 2], [1, 1, 1]) == (0.0, 0.0)
