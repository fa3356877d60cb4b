"""Table 4 next to what was measured, differences of arms, and presets."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from mispair.evaluation.report.checkpoints import published_name
from mispair.image_text.report.comparison import shuffling
from mispair.image_text.report.presets import presets
from mispair.report.rows import origins
from mispair.report.tables import Tables, tidy

RATES = (0.0, 0.3, 0.8)


def tables(**rows: list[dict[str, Any]]) -> Tables:
    return Tables({name: tidy(name, found) for name, found in rows.items()})


def arms(overlap: dict[str, float], accuracy: dict[str, float], seeds: int = 3) -> Tables:
    """Return arms whose text |cos| and accuracy move by the given slopes."""
    purity, scores = [], []
    for rate, seed in itertools.product(RATES, range(seeds)):
        here = {"scheme": "random", "rate": rate, "seed": seed}
        for start, slope in overlap.items():
            for tower, metric in itertools.product(
                ("text", "image"), ("mean_abs_cosine", "mean_abs_cosine_rotated")
            ):
                purity.append({**here, "start": start, "tower": tower, "metric": metric,
                               "value": 0.08 + slope * (1 + 0.02 * (seed - 1)) * rate})  # fmt: skip
        for start, slope in accuracy.items():
            scores.append({**here, "start": start, "evaluation_set": "wds_food101",
                           "protocol": "clip_benchmark", "metric": "acc1", "headline": "acc1",
                           "fingerprint": "3" * 16,
                           "value": 0.7 + slope * (1 + 0.001 * (seed - 1)) * rate})  # fmt: skip
    purity += [{"start": "untouched", "tower": tower, "metric": "mean_abs_cosine", "seed": 0,
                "value": 0.07} for tower in ("text", "image")]  # fmt: skip
    return tables(purity=purity, zeroshot=scores)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("wds_food101", "Food-101"), ("vtab-caltech101", "Caltech-101"), ("wds/vtab/pets", "Pets"),
     ("Oxford-IIIT-Pet", "Pets"), ("cifar10", "CIFAR-10"), ("vtab_cifar100", "CIFAR-100"),
     ("STL10", "STL-10"), ("imagenet1k", "ImageNet-1k"), ("handwritten-digits", None)],
)  # fmt: skip
def test_evaluation_sets_are_matched_with_published_ones(name, expected):
    assert published_name(name) == expected


def test_table_4_stands_beside_every_rate_of_every_set():
    found = arms({}, {"pretrained": -0.2})
    others = found.zeroshot.assign(evaluation_set="shapes", fingerprint="4" * 16)
    both = tables(zeroshot=[*found.zeroshot.to_dict("records"), *others.to_dict("records")])
    table = shuffling(both)[0]
    by_place = {(row[0], row[3]): row for row in table.rows}
    food = by_place["wds_food101 (clip_benchmark #33333333)", "0.8"]
    assert food[4].replace("\u00a0", " ") == "0.540 ± 0.000 (n = 3)"
    assert (food[5], food[7], food[8]) == ("0.111", "−0.059", "Food-101")
    # The mean of the six data sets at C_m 0.3.
    mean = sum((0.479, 0.495, 0.178, 0.109, 0.132, 0.792)) / 6
    other = by_place["shapes (clip_benchmark #44444444)", "0.3"]
    assert (other[5], other[8]) == (f"{mean:.3f}", "mean of all")


def test_differences_of_arms_have_their_paired_intervals():
    rows = [
        {"start": "pretrained", "scheme": "random", "rate": 0.3, "evaluation_set": "wds_food101",
         "protocol": "clip_benchmark", "metric": "acc1_difference", "reference": reference,
         "value": value, "low": value - 0.02, "high": value + 0.02, "n": 2500, "p": 0.0004}
        for reference, value in (("untouched", -0.1), ("rate 0", -0.06))
    ]  # fmt: skip
    found = arms({}, {"pretrained": -0.2})
    table = shuffling(tables(zeroshot=found.zeroshot.to_dict("records"), comparisons=rows))[1]
    ((name, start, scheme, rate, zero, untouched, images),) = table.rows
    assert (start, scheme, rate, images) == ("pretrained", "random", "0.3", "2,500")
    assert name == "wds_food101 (clip_benchmark #33333333)"
    assert zero.replace("\u00a0", " ") == "−0.060 (−0.080 to −0.040; p < 0.001)"
    assert untouched.startswith("−0.100")


def test_text_and_code_stand_beside_what_this_run_used():
    about = {"projection": {"start": "pretrained", "preset": "as-run",
                            "training": '{"lr": 0.001, "batch_size": 256}'}}  # fmt: skip
    found = tables(purity=[{"start": "pretrained", "metric": "mean_abs_cosine", "tower": "text",
                            "rate": 0.0, "value": 0.1}],
                   provenance=origins("purity", about))  # fmt: skip
    table = presets(found)
    assert table is not None
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["batch_size"][1].startswith("1024: 256 in each of four processes")
    assert rows["batch_size"][2] == "256"
    assert rows["lr"][2] == "0.001"
    assert rows["weight_decay"][2] == "–"
    assert "N²" in rows["neurons"][1]
    assert "by the preset as-run" in table.remark
    assert presets(tables()) is None
