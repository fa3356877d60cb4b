import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mispair.report.statistics import (
    contrast,
    contrasts,
    effect_of_comparison,
    effect_of_mean,
    mean_interval,
    trend,
    trial_means,
)


def test_an_effect_is_that_of_the_t_test():
    values = [0.3, 0.1, 0.4, 0.25, 0.2]
    effect = effect_of_mean(values, 0.95, "trial")
    tested = stats.ttest_1samp(values, 0.0)
    outer, inner = tested.confidence_interval(0.95), tested.confidence_interval(0.90)
    assert (effect.value, effect.p) == pytest.approx((np.mean(values), tested.pvalue))
    assert (effect.low, effect.high) == pytest.approx((outer.low, outer.high))
    assert effect.limits(0.05) == pytest.approx((inner.low, inner.high))
    assert (effect.n, effect.unit) == (5, "trial")


@pytest.mark.parametrize("freedom", [1.5, 6.6, 29.0, 500.0])
@pytest.mark.parametrize("seeds", [1, 5])
def test_an_effect_over_images_names_the_seeds_that_were_run(seeds, freedom):
    row = {"value": 0.1, "error": 0.01, "freedom": freedom, "n": 7797, "seeds": float(seeds)}
    words = effect_of_comparison(pd.Series(row), 0.95).replicates
    assert words.startswith(f"7,797 images and {seeds} seed")
    assert (f"{freedom:.1f}" in words) == (freedom < 30)


@pytest.mark.parametrize("values", [[], [0.5], [0.5, math.nan], [50.0, 50.0], [0.1 * 3, 0.3]])
def test_replicates_that_show_no_spread_give_no_interval(values):
    effect = effect_of_mean(values, 0.95, "trial")
    assert not effect.known
    assert math.isnan(effect.p)


def test_a_resolution_is_the_least_spread_of_equal_counts():
    effect = effect_of_mean([50.0, 50.0], 0.95, "trial", resolution=1.0)
    half = stats.t.ppf(0.975, 1) * math.sqrt(1 / 12) / math.sqrt(2)
    assert effect.high - 50 == pytest.approx(half)
    spread = effect_of_mean([40.0, 50.0, 60.0], 0.95, "trial", resolution=1.0)
    assert spread == effect_of_mean([40.0, 50.0, 60.0], 0.95, "trial")


def test_a_trial_counts_once():
    index = pd.MultiIndex.from_product(
        [[0.1, 0.3], [0, 1, 2]], names=["spurious_probability", "trial"]
    )
    values = pd.Series([1.0, 2.0, 3.0, 3.0, 6.0, math.nan], index=index)
    assert trial_means(values) == [2.0, 4.0]  # trial 2 was not measured at 0.3
    assert trial_means(values[:0]) == []


def test_contrasts_are_paired_by_seed():
    rows = [
        {"rate": rate, "seed": seed, "value": 0.1 * seed + slope * rate}
        for seed, slope in enumerate((1.0, 2.0, 3.0))
        for rate in (0.0, 0.5, 1.0)
    ]
    series = pd.DataFrame(rows)
    by_rate = contrasts(series, 0.95)
    assert {rate: effect.value for rate, effect in by_rate.items()} == pytest.approx(
        {0.5: 1.0, 1.0: 2.0}
    )
    assert contrast(series, 0.95) == effect_of_mean([1.0, 2.0, 3.0], 0.95, "seed")
    assert math.isnan(contrast(series[series["rate"] == 0], 0.95).value)


def test_an_interval_is_the_t_interval():
    values = [1.0, 2.5, 3.0, 4.5]
    found = mean_interval(values, 0.9)
    expected = stats.t.interval(0.9, 3, np.mean(values), stats.sem(values))
    assert (found.low, found.high) == pytest.approx(expected)


def test_an_interval_leaves_out_what_is_missing():
    assert mean_interval([1.0, math.nan, 3.0]).n == 2
    assert mean_interval([math.nan]).n == 0


def test_a_trend_goes_through_all_permutations_of_small_designs():
    x, y = [0, 1, 2, 3], [0.1, 0.3, 0.2, 0.4]
    found = trend(x, y)
    own = stats.spearmanr(x, y).statistic
    every = [stats.spearmanr(x, list(p)).statistic for p in itertools.permutations(y)]
    assert found.rho == pytest.approx(own)
    assert found.p_rise == pytest.approx(np.mean(np.array(every) >= own - 1e-9))
    assert found.p_fall == pytest.approx(np.mean(np.array(every) <= own + 1e-9))


def test_a_trend_within_blocks_ignores_the_level_of_a_block():
    x = [0, 1, 2] * 2
    found = trend(x, [0.0, 0.1, 0.2, 9.0, 9.1, 9.2], ["a"] * 3 + ["b"] * 3)
    assert found.rho == pytest.approx(1)
    assert found.p_rise == pytest.approx(1 / 36)
    assert (found.n, found.blocks) == (6, 2)


def test_a_large_design_is_tested_by_the_same_random_permutations_each_time():
    x = list(range(8)) * 3
    y = [value + 0.01 * number for number, value in enumerate(x)]
    blocks = [0] * 8 + [1] * 8 + [2] * 8
    assert trend(x, y, blocks) == trend(x, y, blocks)
    assert trend(x, y, blocks).p_rise == pytest.approx(1 / 10_000)


def test_no_trend_without_three_values_and_none_in_constant_ones():
    assert math.isnan(trend([0, 1], [0.0, 1.0]).rho)
    flat = trend([0, 1, 2], [5.0, 5.0, 5.0])
    assert (flat.rho, flat.p_rise, flat.p_fall) == (0.0, 1.0, 1.0)
    assert trend([0, 1, 2, 3], [0.0, math.nan, 1.0, 2.0]).n == 3
