"""Regimes: how pairs are corrupted, what is measured, and where a change crosses zero."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mispair.emoji import regimes
from mispair.emoji.crossings import changes, crossing, crossings, pooled
from mispair.emoji.joining import train
from mispair.emoji.regimes import LabelledFeatures, corrupted, measure, training
from mispair.emoji.report.figure import sign_of_change
from mispair.emoji.training_settings import SCALES, Grid
from mispair.evaluation.purity import neuron_overlap
from mispair.towers.features import PairedFeatures
from mispair.towers.finetuning.finetuning_settings import FinetuningLength
from mispair.towers.finetuning.projection import Projections

GRID = Grid(numbers=[40, 1000], neurons=[6], rates=[0.0, 0.5], seeds=2, steps=4)


@pytest.fixture
def features(monkeypatch: pytest.MonkeyPatch) -> PairedFeatures:
    monkeypatch.setattr(regimes, "PRESET", replace(regimes.PRESET, batch_size=20))
    draw = np.random.default_rng(0)
    images = draw.standard_normal((90, 12)).astype(np.float32)
    texts = (images[:60] @ draw.standard_normal((12, 7))).astype(np.float32)
    rows = np.concatenate([np.arange(60), np.arange(30)])
    return PairedFeatures(images, texts, rows[None])


def model(features: PairedFeatures, neurons: int, seed: int) -> Projections:
    how = FinetuningLength(epochs=2, batch_size=20, logit_scale="free")
    return train(features, neurons, how, seed).projections


def test_pairs_and_swaps_are_nested(features: PairedFeatures) -> None:
    few, more = (corrupted(features, 50, rate, [1, 2]) for rate in (0.2, 0.6))
    assert few.image_rows is not None
    assert few.keeps_caption is not None
    assert more.keeps_caption is not None
    np.testing.assert_array_equal(few.image_rows, more.image_rows)
    assert not np.array_equal(few.image_rows[0], few.image_rows[1])
    assert ((~few.keeps_caption).sum(1) == 10).all()
    assert ((~more.keeps_caption).sum(1) == 30).all()
    assert not (~few.keeps_caption & more.keeps_caption).any(), "swapped at .2 is swapped at .6"
    for data in (few, more):
        own = features.text_rows[0][data.image_rows]
        np.testing.assert_array_equal(data.text_rows == own, data.keeps_caption)
        np.testing.assert_array_equal(np.sort(data.text_rows, 1), np.sort(own, 1))
    whole = corrupted(features, 90, 0.0, [1])
    np.testing.assert_array_equal(whole.text_rows, features.text_rows)


@pytest.mark.parametrize("pairs", [256, 500, 1000, 6304])
def test_the_number_of_steps_does_not_depend_on_the_pairs(pairs: int) -> None:
    how = training(pairs, "converged", 390)
    per_epoch = pairs // how.batch_size
    assert 390 <= how.epochs * per_epoch < 390 + per_epoch
    assert how.warmup_epochs < how.epochs
    assert how.logit_scale == "solved"
    assert training(pairs, "frozen", 390).logit_scale == "frozen"


def test_pairs_that_do_not_fill_a_batch_are_refused() -> None:
    with pytest.raises(ValueError, match="255 pairs"):
        training(255, "frozen", 390)


def test_rows_are_those_of_the_trainings(features: PairedFeatures) -> None:
    images, texts = features.image_features[:20], features.text_features[:20]
    known = LabelledFeatures("classification", images, texts, np.arange(20))
    retrieval = known._replace(kind="retrieval")
    ended: list[str] = []
    rows = pd.DataFrame(
        measure(
            features, {"a": known, "b": retrieval}, lambda e, s: model(features, e, s), GRID,
            ended.append,
        )
    )  # fmt: skip
    assert len(ended) == 2 * 2 * 2
    assert set(rows["pairs"].dropna()) == {40, 90}
    keys = ["neurons", "pairs", "scale", "rate", "seed", "metric"]
    assert not rows.duplicated(keys).any()
    one = rows.set_index(keys)["value"].sort_index()
    untouched = rows[(rows["scale"] == "untouched") & (rows["seed"] == 1)].set_index("metric")
    projections = model(features, 6, 1)
    assert untouched["value"]["mean_abs_cosine_image"] == pytest.approx(
        neuron_overlap(projections.image[0]).mean()
    )
    classes = (texts @ projections.text[0]).astype(float)
    classes /= np.linalg.norm(classes, axis=1, keepdims=True)
    answers = (images @ projections.image[0] @ classes.T).argmax(1)
    assert untouched["value"]["acc1_a"] == np.mean(answers == np.arange(20))
    for scale in SCALES:
        assert (6, 40.0, scale, 0.0, 0, "learned_share") not in one.index
        assert 0 <= one[6, 40.0, scale, 0.5, 0, "learned_share"] <= 1
        assert one[6, 40.0, scale, 0.5, 0, "loss"] > 0
        assert 1 <= one[6, 40.0, scale, 0.5, 0, "participation_ratio_text"] <= 6


def test_fewer_rates_and_pairs_change_no_other_number(features: PairedFeatures) -> None:
    def rows(grid: Grid) -> pd.Series:
        made = measure(features, {}, lambda e, s: model(features, e, s), grid)
        keys = ["pairs", "scale", "rate", "seed", "metric"]
        return pd.DataFrame(made).dropna().set_index(keys)["value"]

    fewer = {"numbers": [1000], "rates": [0.5], "scales": ["frozen"]}
    whole, part = rows(GRID), rows(GRID.model_copy(update=fewer))
    pd.testing.assert_series_equal(whole.loc[part.index], part, check_exact=True)


def made_up(curve: dict[int, float], noise: float = 0.0) -> pd.DataFrame:
    """Return rows whose change at each number of pairs is known."""
    return pd.DataFrame(
        {"metric": "mean_abs_cosine_image", "scale": "frozen", "neurons": 4, "parameters": 100,
         "pairs": pairs, "rate": rate, "seed": seed,
         "value": 0.1 + seed + (rate > 0) * (rate * change + noise * (seed - 1))}
        for pairs, change in curve.items() for rate in (0.0, 0.4, 0.8) for seed in range(3)
    )  # fmt: skip


def test_changes_are_paired_by_seed_with_a_t_interval() -> None:
    changed = changes(made_up({100: -0.05, 400: 0.02}, noise=0.01)).set_index("pairs")
    assert changed["value"].to_list() == pytest.approx([0.8 * -0.05, 0.8 * 0.02])
    half = 4.302653 * 0.01 / math.sqrt(3)
    assert (changed["high"] - changed["value"]).to_list() == pytest.approx([half, half])
    assert changed["sign"].to_list() == [-1, 0]
    assert changed["pairs_per_parameter"].to_list() == [1, 4]


def test_a_crossing_is_between_logarithms() -> None:
    found = crossings(changes(made_up({100: -0.05, 400: 0.05, 900: 0.1}, noise=0.01))).iloc[0]
    assert found["pairs"] == pytest.approx(200)
    assert found["pairs_per_parameter"] == pytest.approx(2)
    assert found["low"] < 200 < found["high"]


def test_a_line_through_all_widths_crosses_where_it_was_put() -> None:
    curve = {pairs: 0.05 * math.log10(pairs / 200) for pairs in (20, 100, 400, 3000)}
    narrow, wide = made_up(curve, 0.002), made_up(curve, 0.002)
    wide = wide.assign(neurons=40, parameters=1000, pairs=wide["pairs"] * 10)
    found = pooled(changes(pd.concat([narrow, wide]))).iloc[0]
    assert found["slope"] == pytest.approx(0.8 * 0.05)
    assert found["pairs_per_parameter"] == pytest.approx(2)
    assert found["low"] < 2 < found["high"]
    risen = {pairs: 0.01 + 1e-6 * pairs for pairs in (20, 100, 400)}
    assert math.isnan(pooled(changes(made_up(risen))).iloc[0]["pairs_per_parameter"])


def test_without_a_crossing_there_is_none() -> None:
    found = crossings(changes(made_up({100: -0.05, 400: -0.01}))).iloc[0]
    assert math.isnan(found["pairs"])
    assert "no crossing" in found["finding"]


def test_seeds_that_disagree_give_no_interval() -> None:
    found = crossing([1, 10, 100], np.array([[-1.0, 2.0, 3.0], [-1.0, -1.0, -1.0]]))
    assert 1 < found.pairs < 10
    assert math.isnan(found.low)
    assert crossing([1, 10, 100], np.array([[-1.0, 1.0, -1.0]])).finding.startswith("2 crossings")


def test_the_figure_shows_every_width(tmp_path: Path) -> None:
    svg = sign_of_change(changes(made_up({100: -0.05, 400: 0.05}, noise=0.01)))
    assert svg.startswith("<svg")
    assert "Image projection, scale frozen" in svg
