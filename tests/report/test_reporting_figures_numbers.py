"""The numbers in figures, against ones that are computed another way."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch

from mispair.core import metrics
from mispair.evaluation.purity import map_rows, overlap_map
from mispair.image_text.report.rows import of_ends
from mispair.image_text.report.rows import rows as of_image_text
from mispair.report import studies
from mispair.report.figures import compose
from mispair.report.tables import Tables, tidy
from mispair.simulation.caption_statistics import sample_captions
from mispair.simulation.dynamics import trajectory_errors


def drawn(name: str, **rows: list[dict[str, object]]) -> tuple[pd.DataFrame, str]:
    figure = next(figure for figure in studies.figures() if figure.name == name)
    tables = Tables({table: tidy(table, own) for table, own in rows.items()})
    spec, data = compose(figure, tables, 12, 10_000)
    return data, spec["usermeta"]["mispair"].get("sentence", "")


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


def test_the_heat_map_shows_both_triangles_of_the_ends_and_of_one_seed():
    rows = []
    matrices = {}
    for start, rate in (("untouched", None), *(("pretrained", r) for r in (0.0, 0.5, 0.9))):
        for tower in ("text", "image"):
            for seed in (0, 1):
                matrix = np.random.default_rng(len(rows)).normal(size=(8, 30))
                matrices[start, rate, tower, seed] = matrix
                here = {"start": start, "rate": rate, "tower": tower, "seed": seed,
                        "scheme": None if rate is None else "random"}  # fmt: skip
                rows += [{**here, **row} for row in map_rows(matrix, 5)]
    data, sentence = drawn("overlap_map", purity_map=rows)
    assert set(data["arm"]) == {"untouched", "C_m = 0", "C_m = 0.9"}
    assert len(data) == 3 * 2 * 25
    own = data[(data["arm"] == "C_m = 0.9") & (data["tower"] == "image")]
    found = own.pivot_table(index="row", columns="column", values="value").to_numpy()
    expected, _ = overlap_map(matrices["pretrained", 0.9, "image", 0], 5)
    np.testing.assert_allclose(found, expected)
    assert f"{expected[0, 0]:.3f} and {expected[4, 4]:.3f} (C_m = 0.9)" in sentence


@pytest.mark.parametrize("bins", [6, 7])
def test_the_ladder_folds_signed_cosines_whatever_the_number_of_bins(bins):
    rng = np.random.default_rng(1)
    edges = np.linspace(-1, 1, bins + 1)
    rows, cosines = [], {}
    for rate in (0.0, 0.4):
        for seed in range(3):
            values = np.clip(rng.normal(0, 0.3, 400), -0.99, 0.99)
            cosines[rate, seed] = values
            shares = np.histogram(values, edges)[0] / 400
            here = {"start": "pretrained", "scheme": "random", "rate": rate, "tower": "text",
                    "seed": seed}  # fmt: skip
            rows += [
                {
                    **here,
                    "metric": "cosine_histogram",
                    "value": share,
                    "bin_low": low,
                    "bin_high": high,
                }
                for share, (low, high) in zip(shares, itertools.pairwise(edges), strict=True)
            ]
            rows.append({**here, "metric": "mean_abs_cosine", "value": np.abs(values).mean()})
    data, sentence = drawn("cosine_ladder", purity=rows)
    for (rate, low, high), own in data[data["layer"] == "share"].groupby(
        ["rate", "bin_low", "bin_high"]
    ):
        shares = [
            np.mean((np.abs(cosines[rate, seed]) >= low) & (np.abs(cosines[rate, seed]) < high))
            for seed in range(3)
        ]
        assert own["value"].item() == pytest.approx(np.mean(shares), abs=1e-9)
        assert own["high"].item() - own["value"].item() == pytest.approx(np.std(shares, ddof=1))
    assert data.loc[data["layer"] == "share", "bin_low"].min() == 0
    assert data[(data["layer"] == "share") & (data["rate"] == 0.4)]["value"].sum() > 0.99
    first = np.mean([np.abs(cosines[0.0, seed]).mean() for seed in range(3)])
    assert f"text {first:.3f} →" in sentence


def test_alignments_are_sorted_by_the_feature_that_a_neuron_ends_with():
    spurious = np.zeros((4, 4), bool)
    spurious[0, 1] = spurious[1, 0] = spurious[2, 3] = spurious[3, 2] = True
    # Image neuron 0 ends with feature 0 (partner 1), neuron 1 with 3 (partner 2).
    image = np.array([[-5.0, 2.0, 0.5, 0.1], [0.2, 0.3, 3.0, 7.0]])
    text = np.array([[0.0, 4.0, 0.2, 0.4], [1.0, 0.0, 6.0, 2.0]])
    early = (0, np.full((2, 4), 0.25), np.full((2, 4), -0.25))
    rows = trajectory_errors(
        [early, (8, image, text)], {"eq34": lambda t: (2 * image, 2 * text)}, spurious
    )
    values = {(row["metric"], row["step"], row["source"]): row["value"] for row in rows}
    assert values["alignment_true", 8, "measured"] == pytest.approx((5 + 7 + 4 + 6) / 4)
    assert values["alignment_spurious", 8, "measured"] == pytest.approx((2 + 3 + 0 + 2) / 4)
    others = [0.5, 0.1, 0.2, 0.3, 0.2, 0.4, 1.0, 0.0]
    assert values["alignment_other", 8, "measured"] == pytest.approx(sum(others) / 8)
    assert values["alignment_true", 8, "eq34"] == pytest.approx(11)
    for name in ("true", "spurious", "other"):
        assert values[f"alignment_{name}", 0, "measured"] == pytest.approx(0.25)


def test_growth_is_drawn_at_the_ends_of_c_s_with_the_spread_of_what_was_measured():
    rows = [
        {"condition": "as-written", "kind": "preset", "preset": "as-written", "trained_on": "raw",
         "metric": f"alignment_{name}", "source": source, "step": step, "trial": trial,
         "spurious_probability": c, "value": level * (1 + step + trial) * (1 + c)}
        for name, level in (("true", 1.0), ("spurious", 0.4), ("other", 0.1))
        for source in ("measured", "eq34") for step in (0, 8) for trial in (0, 1)
        for c in (0.0, 0.2, 0.3)
    ]  # fmt: skip
    data, sentence = drawn("simulation_dynamics", simulation=rows)
    assert set(data["spurious_probability"]) == {0.0, 0.3}
    own = data[(data["feature"] == "spurious") & (data["step"] == 8)
               & (data["spurious_probability"] == 0.3)].set_index("source")  # fmt: skip
    pair = [0.4 * 9 * 1.3, 0.4 * 10 * 1.3]
    assert own.loc["measured", "value"] == pytest.approx(np.mean(pair))
    assert own.loc["measured", "low"] == pytest.approx(np.mean(pair) - np.std(pair, ddof=1))
    assert math.isnan(own.loc["Eq. 34", "low"])
    assert "0.4 (as-written, C_s = 0.3; other features 0.1)" in sentence


def test_captions_are_shown_feature_by_feature_before_and_after():
    image = torch.tensor([[1.0, -1.0, 0, 0, 0], [0, 1, 0, 0, 0]])
    raw = torch.tensor([[1.0, 0, 1, 0, 0], [0, -1, 0, 0, 0]])
    filtered = torch.tensor([[1.0, -1, 0, 0, 0], [0, -1, 0, 0, 0]])
    rows = sample_captions(image, {"raw": raw, "filtered": filtered}, torch.tensor([True, False]))
    assert {(row["pair"], row["latent"]) for row in rows} == {(0, 0), (0, 1), (0, 2), (1, 1)}
    here = {"condition": "as-run", "kind": "preset", "trial": 0, "spurious_probability": 0.3}
    data, sentence = drawn("simulation_samples", simulation_points=[{**here, **r} for r in rows])
    found = data.set_index(["source", "pair", "latent"])["entry"].to_dict()
    assert found == {
        ("raw", 0, 0): "right", ("raw", 0, 1): "missing", ("raw", 0, 2): "wrong",
        ("filtered", 0, 0): "right", ("filtered", 0, 1): "right",
        ("raw", 1, 1): "wrong", ("filtered", 1, 1): "wrong",
    }  # fmt: skip
    assert data[data["latent"] == 2]["place"].tolist() == [3]
    assert set(data.loc[data["pair"] == 0, "fate"]) == {"replaced"}
    assert set(data.loc[data["pair"] == 1, "fate"]) == {"kept"}
    assert "raw captions 1 right, 1 missing and 2 wrong" in sentence
    assert "filtered captions 2 right, 0 missing and 1 wrong" in sentence


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
