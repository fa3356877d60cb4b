"""What carries the effects of shuffling, table 4 beside measured, and trends in words."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from scipy import stats

from mispair.evaluation.report.checkpoints import published_name
from mispair.image_text.report.comparison import shuffling
from mispair.image_text.report.controls import carried, controls
from mispair.image_text.report.presets import presets
from mispair.report.rows import origins
from mispair.report.tables import Tables, tidy

RATES = (0.0, 0.3, 0.8)
CONTROLS = ("scale-converged", "reinitialised-small", "without-decay")


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
    ("there", "expected"),
    [(0.3, "keeps"), (0.9, "keeps"), (0.21, "keeps"), (0.19, "weakens"), (0.11, "weakens"),
     (0.09, "removes"), (-0.09, "removes"), (-0.11, "reverses"), (float("nan"), "not measured")],
)  # fmt: skip
def test_what_a_control_leaves_of_an_effect(there, expected):
    assert carried(0.3, there) == expected
    assert carried(-0.3, -there) == expected


def test_the_report_says_which_controls_carry_the_effects():
    overlap = dict(zip(("pretrained", *CONTROLS), (0.1, 0.001, 0.05, 0.12), strict=True))
    falls = dict(zip(("pretrained", *CONTROLS), (-0.2, -0.2, -0.19, 0.2), strict=True))
    table = controls(arms(overlap, falls), 0.05)
    assert table is not None
    assert table.remark.startswith(
        "The rise of the overlap of text neurons (+0.0800) does not need weight decay; "
        "it rests in part on the pre-trained start; it rests on the frozen logit scale. "
        "The fall of the accuracy (−0.160) does not need the frozen logit scale and the "
        "pre-trained start; it turns round without weight decay."
    )
    by_arm = {row[0]: row for row in table.rows}
    start = by_arm["logit scale solved for"]
    assert (start[1], start[7], start[12], start[13]) == ("+0.0008", "−0.160", "removes", "keeps")
    rotated = by_arm["from pre-trained, in randomly rotated bases"]
    assert (rotated[1], rotated[12]) == ("+0.0800", "keeps")
    alone = by_arm["as many steps on unshuffled captions: C_m 0 − untouched"]
    assert alone[1] == "+0.0100"
    assert "clip_benchmark #33333333" in table.remark


def test_an_effect_that_is_not_there_has_no_carrier():
    flat = arms({"pretrained": 0.0, "reinitialised": 0.1}, {"pretrained": -0.2}, seeds=1)
    table = controls(flat, 0.05)
    assert table is not None
    assert "The overlap of text neurons does not change beyond chance" in table.remark
    flat = arms({"pretrained": 0.1}, {"pretrained": -0.2})
    missing = controls(flat, 0.05)
    assert missing is not None
    assert "was not tested for the frozen logit scale, the pre-trained start" in missing.remark
    assert controls(tables(), 0.05) is None


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
    table = shuffling(both, 0.05)[0]
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
    table = shuffling(
        tables(zeroshot=found.zeroshot.to_dict("records"), comparisons=rows), 0.05
    )[1]  # fmt: skip
    ((name, start, scheme, rate, zero, untouched, images),) = table.rows
    assert (start, scheme, rate, images) == ("pretrained", "random", "0.3", "2,500")
    assert name == "wds_food101 (clip_benchmark #33333333)"
    assert zero.replace("\u00a0", " ") == "−0.060 (−0.080 to −0.040; p < 0.001)"
    assert untouched.startswith("−0.100")


def test_trends_are_said_in_words_with_spearman_and_p():
    found = arms({"pretrained": 0.1}, {"pretrained": -0.2})
    table = shuffling(found, 0.05)[-1]
    by_measure = {row[0]: row[4] for row in table.rows}
    values = found.zeroshot[found.zeroshot["seed"] == 0]
    rho = stats.spearmanr(values["rate"], values["value"]).statistic
    assert rho == pytest.approx(-1)
    # All six orders of three rates in each of three seeds: two of 216 go as far, one each way.
    assert by_measure["accuracy on wds_food101"] == (
        "falls: Spearman ρ = −1.00, p = 0.009 (permutation, two-sided)"
    )
    for tower in ("text", "image"):
        assert by_measure[f"mean |cos|, {tower} projection"].startswith("rises: Spearman ρ = 1.00")


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
