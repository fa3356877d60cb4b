"""Differences between arms against textbook formulas, and their size under null hypotheses."""

import numpy as np
import pytest
from scipy import stats

from mispair.evaluation.arm_comparison import difference


def _answers(n, seeds, draw, *, hard=0.5, of_seed=0.0, effect=0.0):
    """Return answers of two arms: images differ in difficulty, seeds in skill."""
    difficulty = draw.random(n)

    def arm(shift):
        skill = of_seed * draw.normal(size=(seeds, 1))
        return hard * difficulty + (1 - hard) * draw.random((seeds, n)) < 0.5 + shift + skill

    return arm(effect), arm(0.0)


def test_one_seed_is_the_normal_test_of_paired_images():
    one, other = _answers(5000, 1, np.random.default_rng(0), effect=0.02)
    found = difference([one], [other])
    paired = stats.ttest_1samp(one[0].astype(float) - other[0], 0)
    assert found.value == pytest.approx(one.mean() - other.mean())
    assert found.error == pytest.approx(found.value / paired.statistic, rel=2e-3)
    assert (found.n, found.seeds) == (5000, 1)
    assert found.p == pytest.approx(paired.pvalue, rel=0.1)
    # Images are shared: arms taken as independent would have a wider interval.
    apart = np.sqrt((one.var() + other.var()) / 5000)
    assert found.error < 0.9 * apart


def test_variances_are_those_of_the_two_way_table():
    draw = np.random.default_rng(1)
    one, other = _answers(60, 4, draw, of_seed=0.1)
    found = difference([one], [other])
    apart = one.astype(float) - other
    seeds, images = apart.shape
    effects = apart.mean(1)[:, None], apart.mean(0)[None]
    rest = ((apart - effects[0] - effects[1] + apart.mean()) ** 2).sum()
    rest /= (seeds - 1) * (images - 1)
    # The variance between seeds holds the interaction; that of images is without it.
    of_images = effects[1].var(ddof=0) / images - rest / (seeds * images)
    variance = effects[0].var(ddof=1) / seeds + max(0.0, of_images) + 1 / images**2
    assert found.error**2 == pytest.approx(variance)


def test_sets_weigh_the_same_and_share_their_seeds():
    draw = np.random.default_rng(2)
    arms = [_answers(n, 3, draw, of_seed=0.05, effect=0.1) for n in (100, 900)]
    found = difference([one for one, _ in arms], [other for _, other in arms])
    alone = [difference([one], [other]) for one, other in arms]
    assert found.value == pytest.approx(np.mean([each.value for each in alone]))
    assert found.n == 1000
    # A shift of a whole seed is the same in both sets, and does not average out.
    shifted = np.zeros((3, 400), bool)
    shifted[0] = True
    same = difference([shifted], [~shifted])
    twice = difference([shifted, shifted], [~shifted, ~shifted])
    assert twice.error == pytest.approx(same.error, rel=1e-2)


def test_arms_that_agree_have_an_interval_and_the_sign_turns_with_the_arms():
    one, other = _answers(500, 3, np.random.default_rng(3), effect=0.1)
    same = difference([one], [one])
    assert (same.value, same.p) == (0, 1)
    assert same.high == pytest.approx(1.96 / 500, rel=0.01)
    forth, back = difference([one], [other]), difference([other], [one])
    assert (forth.low, forth.high, forth.p) == pytest.approx((-back.high, -back.low, back.p))
    assert forth.low > 0


def test_a_reference_of_one_seed_is_compared_with_every_seed():
    one, other = _answers(300, 3, np.random.default_rng(4))
    repeated = np.repeat(other[:1], 3, axis=0)
    assert difference([one], [other[:1]]) == difference([one], [repeated])


@pytest.mark.parametrize(
    ("images", "hard", "of_seed"), [(400, 0.9, 0.0), (400, 0.5, 0.02), (400, 0.5, 0.1)]
)
def test_size_and_power_of_the_test_over_images_and_seeds(images, hard, of_seed):
    draw = np.random.default_rng(5)

    def rejected(effect, times):
        arms = (_answers(images, 3, draw, hard=hard, of_seed=of_seed, effect=effect)
                for _ in range(times))  # fmt: skip
        return np.mean([difference([one], [other]).p <= 0.05 for one, other in arms])

    assert rejected(0.0, 2000) == pytest.approx(0.05, abs=0.015)
    assert rejected(0.1 + 4 * of_seed, 200) > 0.5


@pytest.mark.parametrize(("seeds", "images"), [(1, 0), (1, 3), (3, 5)])
def test_arms_that_cannot_be_paired_are_refused(seeds, images):
    with pytest.raises(ValueError, match="cannot be compared"):
        difference([np.ones((2, 5), bool)], [np.ones((seeds, images), bool)])
    with pytest.raises(ValueError, match="without an evaluation set"):
        difference([], [])
