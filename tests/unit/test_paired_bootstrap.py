"""The paired bootstrap against a naive loop over images and the closed normal form."""

import numpy as np
import pytest

from mispair.evaluation.intervals import Z95
from mispair.evaluation.paired_bootstrap import difference


def _answers(n, share, better, seeds=(3, 2), seed=0):
    """Arms that share the difficulty of the images; the first is better at some of them."""
    draw = np.random.default_rng(seed)
    hard = draw.random(n)
    arms = [draw.random((s, n)) * 0.4 + 0.6 * hard < share for s in seeds]
    arms[0] |= draw.random((seeds[0], n)) < better
    return arms


def test_interval_and_p_are_those_of_a_loop_over_images():
    one, other = _answers(80, 0.5, 0.1, seed=4)
    found = difference(one, other, np.random.default_rng(1), 20_000)
    draw = np.random.default_rng(2)
    means = []
    for _ in range(20_000):
        images = draw.integers(0, 80, 80)
        means.append(one[:, images].mean() - other[:, images].mean())
    assert found.value == pytest.approx(one.mean() - other.mean())
    low, high = np.quantile(means, [0.025, 0.975])
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.003)
    below, above = (np.mean(np.array(means) * sign <= 1e-12) for sign in (1, -1))
    assert found.p == pytest.approx(2 * min(below, above), abs=0.02)
    assert 0.05 < found.p < 0.9  # a case in which the p value can be wrong
    assert found.n == 80


def test_with_many_images_the_interval_is_the_normal_one_of_paired_differences():
    one, other = _answers(20_000, 0.6, 0.1)
    found = difference(one, other, np.random.default_rng(0))
    paired = one.mean(axis=0) - other.mean(axis=0)
    half = Z95 * paired.std() / np.sqrt(20_000)
    expected = paired.mean() - half, paired.mean() + half
    assert (found.low, found.high) == pytest.approx(expected, abs=0.05 * half)
    # Images are shared: taking the arms as independent would give a much wider interval.
    unpaired = Z95 * np.sqrt((one.mean(0).var() + other.mean(0).var()) / 20_000)
    assert found.high - found.low < 0.7 * (2 * unpaired)
    assert found.low > 0
    assert found.p == pytest.approx(2 / 10_001)


def test_equal_arms_do_not_differ_and_the_sign_turns_with_the_arms():
    one, other = _answers(500, 0.5, 0.1, seeds=(1, 4))
    same = difference(one, one, np.random.default_rng(0))
    assert (same.value, same.low, same.high, same.p) == (0, 0, 0, 1)
    forth, back = (
        difference(*arms, np.random.default_rng(0)) for arms in ((one, other), (other, one))
    )
    assert forth.value == pytest.approx(-back.value)
    assert forth.value > 0
    assert (forth.low, forth.high) == pytest.approx((-back.high, -back.low), abs=0.004)


def test_under_the_null_it_rejects_as_often_as_it_says():
    rejected = 0
    for seed in range(400):
        one, other = _answers(200, 0.5, 0.0, seeds=(1, 1), seed=seed)
        rejected += difference(one, other, np.random.default_rng(seed), 500).p < 0.05
    assert 0.02 < rejected / 400 < 0.09


def test_the_same_generator_gives_the_same_interval():
    arms = _answers(100, 0.5, 0.1)
    assert difference(*arms, np.random.default_rng(3)) == difference(
        *arms, np.random.default_rng(3)
    )


@pytest.mark.parametrize("images", [0, 3])
def test_arms_on_other_images_are_refused(images):
    with pytest.raises(ValueError, match="cannot be compared"):
        difference(np.ones((1, 0), bool), np.ones((1, images), bool), np.random.default_rng(0))
