"""Measures of pairs of towers, and intervals over them."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mispair.core.metrics import read_metrics, write_metrics
from mispair.image_text.report import rows as report_rows
from mispair.image_text.report.rows import intervals
from mispair.image_text.report.tables import replicates
from mispair.image_text.steps import compare_towers
from mispair.report.table import general
from mispair.report.tables import Tables, tidy

PAIRS = ("scenes-small", "scenes-small-1", "trained-2", "trained-3")
RATES = (0.0, 0.3, 0.8)
SEEDS = (0, 1)
SETS = {"shape": 0.1, "digit": 0.3}
ROTATED = 0.05
"""Mean rank correlation of rotated bases."""


def overlap(place: int, rate: float, seed: int, tower: str) -> float:
    """Return a made-up mean |cos|, whose rise differs between towers."""
    rise = (0.02 + 0.005 * place) * rate * (3 if tower == "image" else 1)
    return 0.08 + 0.01 * place + rise + 0.001 * seed


def ratio(place: int, rate: float, seed: int) -> float:
    return 50 * math.exp(-(0.4 + 0.1 * place) * rate + 0.01 * seed)


def accuracy(place: int, rate: float, seed: int, name: str) -> float:
    return 0.6 + SETS[name] - (0.01 + 0.02 * place) * rate + 0.01 * seed


def rho(place: int, rate: float, tower: str, metric: str) -> float:
    return 0.1 * place - 0.3 * rate + 0.02 * (tower == "text") + 0.04 * (metric < "semantic")


def write_arm(folder: Path, place: int, rate: float | None) -> None:
    """Write the metrics of an arm as the steps do."""
    seeds = [None] if rate is None else SEEDS
    start, scheme = ("untouched", None) if rate is None else ("pretrained", "random")
    origin = {"projection": {"start": start, "scheme": scheme, "rate": rate}}
    purity, zeroshot, semantics = [], [], []
    for seed in seeds:
        at, run = rate or 0.0, seed or 0
        for tower in ("image", "text"):
            keys = {"tower": tower, "seed": seed}
            cosine = overlap(place, at, run, tower)
            purity += [
                {**keys, "metric": "mean_abs_cosine", "value": cosine},
                {**keys, "metric": "mean_abs_cosine", "value": 9.0, "neuron": 0},
                {**keys, "metric": "participation_ratio", "value": ratio(place, at, run)},
            ]
            for metric in ("semantic_purity", "selectivity"):
                tested = {**keys, "metric": f"{metric}_by_overlap"}
                value = rho(place, at, tower, metric)
                semantics += [{**tested, "basis": "original", "value": value},
                              {**tested, "basis": "rotated", "value": ROTATED}]  # fmt: skip
            mean = {**keys, "metric": "mean_semantic_purity"}
            semantics += [{**mean, "basis": "original", "value": 0.4},
                          {**mean, "basis": "rotated", "value": 0.3}]  # fmt: skip
        purity.append({"metric": "logit_scale", "value": 30.0, "seed": seed})
        zeroshot += [
            {"evaluation_set": name, "protocol": protocol, "metric": "acc1", "seed": seed,
             "value": accuracy(place, at, run, name) - less}
            for name in SETS for protocol, less in (("clip_benchmark", 0.0), ("laclip", 0.5))
        ]  # fmt: skip
        zeroshot.append(
            {"evaluation_set": "words", "protocol": "captions", "metric": "selection_acc",
             "value": 0.8 - 0.1 * at, "seed": seed}
        )  # fmt: skip
    for name, rows in {"purity": purity, "zeroshot": zeroshot, "semantics": semantics}.items():
        write_metrics(folder / f"{name}.json", rows, origin)


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the arms of four pairs of towers."""
    folder = tmp_path_factory.mktemp("arms")
    for place, towers in enumerate(PAIRS):
        for rate in (None, *RATES):
            name = "untouched" if rate is None else f"pretrained_random~{rate:g}"
            write_arm(folder / towers / name, place, rate)
    return folder


def compared(arms: Path, **confidence: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run the step, and return the rows of pairs and those of intervals."""
    comparison = arms / "towers.json"
    files = {
        name: sorted(arms.glob(f"*/*/{name}.json")) for name in ("purity", "zeroshot", "semantics")
    }
    compare_towers.run(compare_towers.Settings(), **files, comparison=comparison)
    values = pd.DataFrame(read_metrics(comparison)[0])
    return values, pd.DataFrame(intervals(values, **confidence))


def select(table: pd.DataFrame, **keys: object) -> pd.DataFrame:
    for name, key in keys.items():
        table = table[table[name].isna() if key is None else table[name] == key]
    return table


def test_a_pair_of_towers_has_the_mean_of_its_seeds(arms: Path) -> None:
    values, _ = compared(arms)
    assert set(values["towers"]) == set(PAIRS)
    arm = {"towers": "trained-2", "start": "pretrained", "rate": 0.8}
    expected = {
        ("mean_abs_cosine", "image"): np.mean([overlap(2, 0.8, seed, "image") for seed in SEEDS]),
        ("log_participation_ratio", "text"): np.mean(
            [math.log(ratio(2, 0.8, seed)) for seed in SEEDS]
        ),
        # Under the first protocol, each set has one weight.
        ("acc1", None): np.mean([accuracy(2, 0.8, seed, name) for seed in SEEDS for name in SETS]),
        ("selection_acc", None): 0.72,
        ("mean_rank_correlation", None): rho(2, 0.8, "image", "semantic_purity") + 0.03,
        ("mean_rank_correlation_over_rotated", None): 0.2 - 0.24 + 0.03 - ROTATED,
        ("selectivity_by_overlap", "text"): rho(2, 0.8, "text", "selectivity"),
        ("mean_semantic_purity", "text"): 0.4,
    }
    for (metric, tower), value in expected.items():
        (measured,) = select(values, **arm, metric=metric, tower=tower)["value"]
        assert measured == pytest.approx(value), metric
    (untouched,) = select(
        values, towers="scenes-small", start="untouched", metric="mean_abs_cosine", tower="text"
    )["value"]
    assert untouched == pytest.approx(overlap(0, 0.0, 0, "text"))


@pytest.mark.parametrize("rate", [0.3, 0.8])
def test_the_interval_of_a_change_is_that_of_a_paired_t_test_over_towers(arms, rate) -> None:
    _, over_towers = compared(arms, confidence=0.9)
    keys = {"quantity": "change", "rate": rate, "metric": "mean_abs_cosine", "tower": "image"}
    (row,) = select(over_towers, **keys).to_dict("records")
    ends = [
        [np.mean([overlap(place, at, seed, "image") for seed in SEEDS]) for place in range(4)]
        for at in (rate, 0.0)
    ]
    test = stats.ttest_rel(*ends)
    low, high = test.confidence_interval(0.9)
    assert (row["low"], row["high"]) == pytest.approx((low, high))
    assert row["value"] == pytest.approx(np.mean(ends[0]) - np.mean(ends[1]))
    assert row["p"] == pytest.approx(test.pvalue)
    assert row["n"] == len(PAIRS)


def test_levels_have_intervals_and_only_correlations_are_tested_against_zero(arms: Path) -> None:
    _, over_towers = compared(arms)
    levels = select(over_towers, quantity="level", start="untouched")
    (correlation,) = select(levels, metric="mean_rank_correlation").to_dict("records")
    test = stats.ttest_1samp([0.1 * place + 0.03 for place in range(4)], 0.0)
    assert correlation["p"] == pytest.approx(test.pvalue)
    assert (correlation["low"], correlation["high"]) == pytest.approx(test.confidence_interval())
    (level,) = select(levels, metric="acc1").to_dict("records")
    assert math.isnan(level["p"])
    # Equal towers do not measure their spread.
    (equal,) = select(levels, metric="selection_acc").to_dict("records")
    assert equal["value"] == pytest.approx(0.8)
    assert math.isnan(equal["low"])


def test_schemes_share_the_arm_without_corruption() -> None:
    keys = {"start": "pretrained", "metric": "acc1", "tower": None}
    values = pd.DataFrame(
        [
            {**keys, "towers": towers, "scheme": scheme, "rate": rate, "value": value + place / 10}
            for place, towers in enumerate("ab")
            for scheme, rate, value in [
                ("random", 0.0, 0.5), ("random", 0.8, 0.4), ("similar", 0.8, 0.2),
            ]
        ]
    )  # fmt: skip
    changes = select(pd.DataFrame(intervals(values)), quantity="change")
    assert dict(zip(changes["scheme"], changes["value"], strict=True)) == pytest.approx(
        {"random": -0.1, "similar": -0.3}
    )


def test_the_report_has_each_pair_of_towers_and_the_intervals(arms: Path) -> None:
    values, over_towers = compared(arms)
    rows = report_rows.rows({"towers": [arms / "towers.json"]}, {})
    names = ("towers", "tower_intervals")
    tables = Tables({name: tidy(name, rows[name]) for name in names})
    assert len(tables.towers) == len(values)
    assert len(tables.tower_intervals) == len(over_towers)
    (table,) = replicates(tables)
    change = select(over_towers, quantity="change", metric="acc1", rate=0.8)["value"].item()
    at = general(0.8)
    shown = [row for row in table.rows if row[0].startswith("zero-shot") and row[4] == at]
    assert {row[5]: row[6].value for row in shown}["change"] == pytest.approx(change)
    assert replicates(Tables({})) == []
