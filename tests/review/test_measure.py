"""What labels measure: shares, further labels, the model, and its lists."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import mannwhitneyu

from mispair.core.distributions import wilson
from mispair.review import measure
from mispair.review.draw import draw
from mispair.review.measure import interval


def labelled(
    size: int = 400, model: bool = True, unsure: int = 0, seed: int = 0
) -> tuple[pd.DataFrame, Any, np.ndarray, np.ndarray]:
    """Return a sample with true labels, its strata, and truth and probability of all pairs."""
    generator = np.random.default_rng(5)
    probability = generator.beta(0.3, 1.5, 5000)
    wrong = generator.random(5000) < probability
    given = probability if model else np.full(5000, np.nan)
    sample, strata = draw([*map(str, range(5000))], given, size, seed)
    label = np.where(wrong[sample["row"]], "wrong", "right").astype(object)
    label[:unsure] = "unsure"
    return sample.assign(label=label), strata, wrong, probability


def by_metric(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["metric"]: row for row in rows}


def test_the_share_and_its_bounds() -> None:
    sample, strata, wrong, _ = labelled(unsure=20)
    found = by_metric(measure.share_rows(sample, strata))
    share, most = found["checked_share"], found["checked_share_most"]
    of_unsure = found["checked_unsure_share"]["value"]
    assert most["value"] == pytest.approx(share["value"] + of_unsure)
    assert share["low"] < wrong.mean() < most["high"]
    unaided = found["checked_share_unaided"]
    assert unaided["value"] == share["value"]
    assert unaided["high"] - unaided["low"] > share["high"] - share["low"]
    assert found["checked_width"]["value"] < 0.85


def test_a_uniform_sample_gives_wilsons_interval() -> None:
    sample, strata, *_ = labelled(200, model=False)
    found = by_metric(measure.share_rows(sample, strata))
    low, high = wilson((sample["label"] == "wrong").sum(), 200)
    unaided = found["checked_share_unaided"]
    assert (unaided["low"], unaided["high"]) == pytest.approx((low.item(), high.item()))
    assert found["checked_width"]["value"] == pytest.approx(1, abs=0.03)  # 5,000 pairs are finite
    assert measure.cut_rows(sample, strata, 0.5, 0.9) == []
    assert measure.reliability_rows(sample, strata) == []
    assert measure.model_rows(measure.weighed(sample, strata)) == []


def test_so_many_more_labels_reach_the_wanted_width() -> None:
    sample, strata, *_ = labelled(200)
    pairs, counts = measure.counted(sample, strata)
    share = interval(pairs, counts.sum(axis=1), counts[:, 1])
    half = (share.high - share.low) / 2
    assert measure.further_labels(sample, strata, half * 1.01) == 0
    more = measure.further_labels(sample, strata, half / 2)
    assert more is not None
    assert 400 < more < 700  # a quarter of the variance needs about four times the labels
    assert measure.further_labels(sample.iloc[:3], strata, 0.02) is None


def test_all_right_has_a_width() -> None:
    sample, strata, *_ = labelled(200)
    sample["label"] = "right"
    found = by_metric(measure.share_rows(sample, strata))
    assert found["checked_share"]["value"] == found["checked_share"]["low"] == 0
    assert 0.01 < found["checked_share"]["high"] < 0.05
    assert measure.model_rows(measure.weighed(sample, strata)) == []
    assert "checked_recall" not in by_metric(measure.cut_rows(sample, strata, 0.5, 0.9))


def test_the_auroc_is_that_of_all_pairs() -> None:
    areas, truth = [], math.nan
    for seed in range(12):
        sample, strata, wrong, probability = labelled(seed=seed)
        (area, *_) = measure.model_rows(measure.weighed(sample, strata))
        areas.append(area["value"])
        truth = mannwhitneyu(probability[wrong], probability[~wrong]).statistic
        truth /= wrong.sum() * (~wrong).sum()
        assert area["low"] < truth < area["high"]
    assert np.mean(areas) == pytest.approx(truth, abs=0.01)


def test_recalibration_finds_a_distorted_probability() -> None:
    sample, strata, *_ = labelled(2000)
    distorted = measure.recalibrated(sample["probability"], (-1.0, 2.0))
    of = measure.weighed(sample.assign(probability=distorted), strata)
    line = measure.recalibration(of)
    assert line == pytest.approx((0.5, 0.5), abs=0.12)
    found = by_metric(measure.model_rows(of))
    assert found["checked_error_recalibrated"]["value"] < found["checked_error"]["value"]
    few = measure.recalibration(of.iloc[:3].assign(wrong=0.0))
    assert all(math.isfinite(value) for value in few)


def test_precision_and_recall_of_a_cut_are_those_of_all_pairs() -> None:
    held = {"precision": 0, "recall": 0}
    for seed in range(10):
        sample, strata, wrong, probability = labelled(seed=seed)
        out = probability >= 0.5
        truth = {"precision": wrong[out].mean(), "recall": out[wrong].mean()}
        found = by_metric(measure.cut_rows(sample, strata, 0.5, 0.8))
        for name, value in truth.items():
            row = found[f"checked_{name}"]
            assert row["at"] == 0.5
            assert row["value"] == pytest.approx(value, abs=0.15)
            held[name] += row["low"] <= value <= row["high"]
        cut = found["checked_cut"]["value"]
        assert wrong[probability >= cut].mean() > 0.65
    assert min(held.values()) >= 9
