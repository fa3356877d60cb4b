"""The interval of a stratified sample: against Wilson's, a search, PPI++ and known shares."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2, hypergeom

from bench import review as bench
from mispair.core.distributions import Z95, wilson
from mispair.review.measure import interval
from tests.review import ppi_reference

LARGE = 10**12


@pytest.mark.parametrize("wrong", [0, 4, 7, 100, 200])
def test_one_stratum_has_wilsons_interval(wrong: int) -> None:
    found = interval([LARGE], [200], [wrong])
    assert found.estimate == wrong / 200
    assert (found.low, found.high) == pytest.approx(
        [float(x) for x in wilson(wrong, 200)], abs=1e-6
    )


@pytest.mark.parametrize("wrong", [1, 2, 3])
def test_few_wrong_ones_have_the_modified_interval_of_wilson(wrong: int) -> None:
    """Brown, Cai and DasGupta 2001, equation (10); the same for few right ones."""
    found, mirrored = (interval([LARGE], [200], [of]) for of in (wrong, 200 - wrong))
    low, high = chi2.ppf(0.05, 2 * wrong) / 2 / 200, float(wilson(wrong, 200)[1])
    assert found[1:] == pytest.approx((low, high), abs=1e-6)
    assert mirrored[1:] == pytest.approx((1 - high, 1 - low), abs=1e-6)


def test_no_limit_contradicts_the_labelled_pairs() -> None:
    found = interval([100, 50], [98, 49], [1, 1])
    assert 2 / 150 <= found.low <= found.high <= 1 - 145 / 150


def test_limits_are_those_of_the_score_test() -> None:
    """At a limit, the most likely shares with this mean are exactly z standard errors away."""
    pairs, n, wrong = np.array([900.0, 60.0, 40.0]), np.array([40, 12, 9]), np.array([1, 3, 8])
    weight, m = pairs / pairs.sum(), n * (pairs - 1) / (pairs - n)
    m *= 1 - (18 / n.sum()) ** 2 * (3 - 1 / 3) / n.sum()

    def statistic(theta: float) -> float:
        def cost(p: np.ndarray) -> float:
            y = wrong / n
            return -float(m @ (y * np.log(p) + (1 - y) * np.log1p(-p)))

        mean = {"type": "eq", "fun": lambda p: weight @ p - theta}
        bounds = [(1e-9, 1 - 1e-9)] * 3
        p = minimize(cost, np.full(3, theta), bounds=bounds, constraints=mean, tol=1e-14).x
        return float(abs(weight @ (wrong / n) - theta) / np.sqrt(weight**2 @ (p * (1 - p) / m)))

    found = interval(pairs, n, wrong)
    assert statistic(found.low) == pytest.approx(Z95, abs=0.01)
    assert statistic(found.high) == pytest.approx(Z95, abs=0.01)


def test_all_pairs_labelled_leave_no_doubt() -> None:
    assert interval([30, 50], [30, 50], [3, 4]) == pytest.approx((7 / 80,) * 3, abs=1e-6)


def test_a_stratum_without_labels_counts_both_ways() -> None:
    of_first = interval([900], [50], [5])
    found = interval([900, 100], [50, 0], [5, 0])
    assert found.estimate == 0.1
    assert found.low == pytest.approx(0.9 * of_first.low)
    assert found.high == pytest.approx(0.9 * of_first.high + 0.1)
    none = interval([900, 100], [0, 0], [0, 0])
    assert np.isnan(none.estimate)
    assert none[1:] == (0.0, 1.0)


def test_many_samples_at_once_are_each_alone() -> None:
    wrong = np.array([[0, 0], [3, 1], [20, 9]])
    together = interval([500, 100], [30, 10], wrong)
    for nth, one in enumerate(wrong):
        alone = interval([500, 100], [30, 10], one)
        assert [part[nth] for part in together] == pytest.approx(list(alone), abs=1e-12)


def test_a_small_population_is_covered_exactly() -> None:
    """With one stratum, coverage follows from the hypergeometric distribution."""
    for right in (0, 1, 5, 20, 60):
        of = hypergeom(120, right, 40)
        samples = np.arange(min(right, 40) + 1)[:, None]
        found = interval([120], [40], samples)
        holds = (found.low <= right / 120 + 1e-12) & (found.high >= right / 120 - 1e-12)
        assert of.pmf(samples[:, 0])[holds].sum() > 0.92


@pytest.mark.parametrize("auroc", ppi_reference.AUROCS)
def test_it_is_about_as_narrow_as_that_of_ppi_python(auroc: float) -> None:
    """Its authors' package has intervals of uniform samples; the formula below is PPI++."""
    widths = []
    for seed, (low, high) in zip(ppi_reference.SEEDS, ppi_reference.INTERVALS[auroc], strict=True):
        y, f, others = ppi_reference.sample(auroc, seed)
        n, m = len(y), len(others)
        pooled = np.concatenate([f, others])
        power = np.cov(y, f)[0, 1] / ((1 + n / m) * pooled.var(ddof=1))
        value = y.mean() + power * (others.mean() - f.mean())
        half = Z95 * np.sqrt((y - power * f).var() / n + power**2 * others.var() / m)
        assert (low, high) == pytest.approx((value - half, value + half), abs=0.004)
        widths.append(high - low)
    ours = np.mean([high - low for _, low, high in bench.draws("random", 0.2, auroc, 40)])
    assert ours == pytest.approx(np.mean(widths), rel=0.15)


@pytest.mark.parametrize("case", bench.CASES)
def test_it_covers_in_every_situation(case: str) -> None:
    """A small run of ``python -m bench.review``; chance adds some misses."""
    for share in bench.SHARES:
        found = bench.cell(case, share, 120)
        assert found.covered >= 0.89, (case, share, found)


@pytest.mark.parametrize(
    ("case", "share"), [("ties", 0.002), ("chance", 0.01), ("one-value", 0.99), ("chance", 0.2)]
)
def test_few_labels_and_few_wrong_ones_cover(case: str, share: float) -> None:
    """A score interval alone covers in 90 to 92 of 100 draws here."""
    assert bench.cell(case, share, 1200, size=50).covered >= 0.925


def test_width_follows_from_the_model() -> None:
    found = {auroc: bench.cell("random", 0.2, 80, auroc).width for auroc in bench.WIDEST}
    assert all(width <= bench.WIDEST[auroc] + 0.03 for auroc, width in found.items()), found
