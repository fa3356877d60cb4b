from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from mispair.reporting.statistics import (
    mean_interval,
    prediction_interval,
    stratified_interval,
    trend,
)


def test_an_interval_of_one_stratum_is_the_t_interval():
    values = [1.0, 2.5, 3.0, 4.5]
    found = mean_interval(values, 0.9)
    expected = stats.t.interval(0.9, 3, np.mean(values), stats.sem(values))
    assert (found.low, found.high) == pytest.approx(expected)


def test_a_difference_between_strata_is_no_noise():
    found = stratified_interval([[0.0, 0.2], [10.0, 10.2]])
    assert found.value == pytest.approx(5.1)
    # s = 0.1 * sqrt(2), two degrees of freedom, standard error s * sqrt(1/2 + 1/2) / 2.
    half = stats.t.ppf(0.975, 2) * 0.1 * math.sqrt(2) / 2
    assert found.high - found.value == pytest.approx(half)


def test_strata_count_alike_whatever_their_size():
    assert stratified_interval([[0.0] * 9, [1.0, 1.0]]).value == pytest.approx(0.5)


def test_one_value_in_each_stratum_gives_no_interval():
    found = stratified_interval([[1.0], [3.0]])
    assert found.value == 2.0
    assert not found.known


def test_missing_values_are_left_out():
    assert stratified_interval([[1.0, math.nan, 3.0], []]).n == 2
    assert stratified_interval([[math.nan]]).n == 0


def test_a_prediction_interval_is_wider_than_that_of_the_mean():
    draws = np.random.default_rng(0).normal(size=10)
    found = prediction_interval(draws)
    half = stats.t.ppf(0.975, 9) * draws.std(ddof=1) * math.sqrt(1.1)
    assert found.high - found.value == pytest.approx(half)
    assert not prediction_interval([0.3]).known


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
