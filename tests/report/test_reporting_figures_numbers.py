"""The numbers in figures, against ones that are computed another way."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from mispair.core import metrics
from mispair.evaluation.purity import overlap_map
from mispair.image_text.report.rows import of_ends
from mispair.image_text.report.rows import rows as of_image_text
from mispair.report.tables import tidy


def plain_cosine(one: np.ndarray, other: np.ndarray) -> float:
    return abs(sum(one * other)) / math.sqrt(sum(one**2) * sum(other**2))


@pytest.mark.parametrize(("neurons", "bins"), [(12, 4), (11, 4), (5, 9)])
def test_a_map_is_the_mean_over_pairs_of_neurons_group_by_group(neurons, bins):
    matrix = np.random.default_rng(0).normal(size=(6, neurons)) ** 3
    columns = list(matrix.T)
    table = [[plain_cosine(a, b) for b in columns] for a in columns]
    others = [sum(row) - row[number] for number, row in enumerate(table)]
    order = sorted(range(neurons), key=others.__getitem__)
    means, pairs = overlap_map(matrix, bins)
    size = min(bins, neurons)
    assert means.shape == (size, size)
    edges = [round(size_ * neurons / size) for size_ in range(size + 1)]
    groups = [order[a:b] for a, b in itertools.pairwise(edges)]
    assert sorted(itertools.chain(*groups)) == list(range(neurons))
    for i, one in enumerate(groups):
        for j, other in enumerate(groups):
            values = [table[a][b] for a in one for b in other if a != b]
            assert pairs[i, j] == len(values)
            if values:
                assert means[i, j] == pytest.approx(sum(values) / len(values))
            else:
                assert math.isnan(means[i, j])
    assert pairs.sum() == neurons * (neurons - 1)
    total = np.nansum(means * pairs) / pairs.sum()
    assert total == pytest.approx(sum(others) / neurons / (neurons - 1))


def test_maps_of_hundreds_of_arms_are_kept_at_the_ends_alone():
    rows = [
        {"start": start, "rate": None if start == "untouched" else rate / 100, "value": rate}
        for start in ("untouched", "pretrained", "reinitialised") for rate in range(10, 90)
    ]  # fmt: skip
    kept = of_ends(rows)
    assert {row["rate"] for row in kept if row["start"] == "pretrained"} == {0.1, 0.89}
    assert sum(row["start"] == "untouched" for row in kept) == 80
    assert all(row["start"] != "reinitialised" for row in kept)
    assert of_ends([]) == []


def test_maps_that_are_measured_have_a_table_of_their_own(tmp_path):
    projection = {"start": "pretrained", "scheme": "random", "rate": "0.3"}
    rows = [
        {"metric": "mean_abs_cosine", "tower": "text", "seed": 0, "value": 0.1},
        {"metric": "overlap_map", "tower": "text", "seed": 0, "row": 0, "column": 1, "value": 0.2},
    ]
    path = tmp_path / "purity.json"
    metrics.write_metrics(path, rows, {"projection": projection})
    found = of_image_text({"purity": [path]}, {})
    assert [row["value"] for row in found["purity"]] == [0.1]
    table = tidy("purity_map", found["purity_map"])
    assert table[["rate", "row", "column", "value"]].to_numpy().tolist() == [[0.3, 0, 1, 0.2]]
