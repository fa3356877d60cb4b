"""Table 4 by itself: the fall before and after the first fine-tuned model, from its own digits."""

from __future__ import annotations

import pytest
from scipy import stats

from mispair.image_text.report import reanalysis
from mispair.report import published

TABLE4 = {  # accuracy in per cent at C_m 0, 0.1, 0.3, 0.5, 0.8, as printed in the paper
    "Caltech-101": (59.7, 48.2, 47.9, 43.6, 44.5),
    "CIFAR-10": (57.9, 50.7, 49.5, 46.5, 44.1),
    "CIFAR-100": (26.4, 19.5, 17.8, 17.4, 16.2),
    "Food-101": (12.9, 10.9, 10.9, 11.1, 11.1),
    "Pets": (13.9, 13.3, 13.2, 13.4, 12.6),
    "STL-10": (86.3, 79.8, 79.2, 78.8, 78.3),
}


def test_most_of_the_fall_is_before_the_first_fine_tuned_model() -> None:
    falls = reanalysis.falls(published.table4())
    for name, percent in TABLE4.items():
        row = falls.loc[name]
        assert 100 * row["before"] == pytest.approx(percent[1] - percent[0])
        assert 100 * row["after"] == pytest.approx(percent[4] - percent[1])
        assert row["rho"] == pytest.approx(stats.spearmanr((1, 2, 3, 4), percent[1:]).statistic)
    means = [sum(values) / 6 for values in zip(*TABLE4.values(), strict=True)]
    mean = falls.loc[reanalysis.MEAN]
    assert mean["share"] == pytest.approx((means[1] - means[0]) / (means[4] - means[0]))
    assert mean["share"] == pytest.approx(0.69, abs=0.005)
    assert falls.loc["Food-101", "rho"] == pytest.approx(0.894, abs=0.001)
