"""DataComp's evaluation: names of sets, main metrics, groups of images, and means over sets."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.metrics import f1_score, recall_score

from mispair.core.files import UserError
from mispair.core.intervals import share_of_variance, wilson, worst_of_shares
from mispair.evaluation import datacomp, groups, retrieval, zeroshot
from mispair.evaluation.protocols import METRIC_OF_CAPTIONS, METRICS, prompts, protocol_files
from mispair.evaluation.sets import open_set
from mispair.image_text.report.tables import datacomp as tables_of
from mispair.report.table import Number
from mispair.report.tables import tidy
from tests.evaluation.test_sets import PNG
from tests.pairs.test_index import write_tar

MEAN_PER_CLASS = {"Caltech-101", "FGVC Aircraft", "Oxford Flowers-102", "Oxford-IIIT Pet"}


def npy(*values: float, dtype: str = "int64") -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array(values, dtype=dtype))
    return buffer.getvalue()


def write_set(root: Path, samples: Sequence[dict[str, bytes]], classes: int = 2) -> Path:
    """Write a classification set; each sample has the same image and the given files."""
    (root / "test").mkdir(parents=True)
    members = []
    for number, files in enumerate(samples):
        members += [(f"s{number}.png", PNG)]
        members += [(f"s{number}.{ending}", content) for ending, content in files.items()]
    write_tar(root / "test" / "0.tar", members)
    (root / "test" / "nshards.txt").write_text("1")
    (root / "classnames.txt").write_text("\n".join(f"c{number}" for number in range(classes)))
    (root / "zeroshot_classification_templates.txt").write_text("a {c}\n")
    return root


def grouped(*names: str | None) -> list[dict[str, bytes]]:
    """Return samples of class 0 whose JSON names a group, or none."""
    return [
        {"cls": b"0", "json": json.dumps({"group": name} if name else {}).encode()}
        for name in names
    ]


def read_groups(root: Path) -> tuple[list[int], list[str]] | None:
    opened = open_set(root)
    found = groups.numbered([each.group for each in opened.samples()], opened.grouped_task)
    return None if found is None else (found[0].tolist(), found[1])


# Names and metrics -----------------------------------------------------------------------------


def test_there_are_38_sets_and_each_mean_is_over_some_of_them():
    names = datacomp.task_names()
    assert len(names) == len(set(names)) == 38
    sizes = {name: len(sets) for name, sets in datacomp.means().items()}
    assert sizes == {"ImageNet": 1, "ImageNet dist. shifts": 6, "VTAB": 13, "Retrieval": 3,
                     "Average": 38}  # fmt: skip
    assert all(set(sets) <= set(names) for sets in datacomp.means().values())


@pytest.mark.parametrize(
    ("folder", "name", "metric"),
    [
        ("wds_vtab-pets_test", "Oxford-IIIT Pet", "mean_per_class_recall"),
        ("wds_pets_test", "Oxford-IIIT Pet", "mean_per_class_recall"),
        ("vtab/caltech101", "Caltech-101", "mean_per_class_recall"),
        ("wds_fgvc_aircraft_test", "FGVC Aircraft", "mean_per_class_recall"),
        ("wds_vtab-flowers_test", "Oxford Flowers-102", "mean_per_class_recall"),
        ("wds_imagenet1k_test", "ImageNet 1k", "acc1"),
        ("wds_imagenet-r_test", "ImageNet-R", "acc1"),
        ("wds_imagenetv2", "ImageNet v2", "acc1"),
        ("wds_wilds-iwildcam_test", "iWildCam", "macro_f1"),
        ("wds_wilds-camelyon17_test", "Camelyon17", "acc1"),
        ("wds_wilds-fmow_test", "FMoW", "worst_group_acc1"),
        ("wds_dollar_street_test", "Dollar Street", "worst_group_acc5"),
        ("fairness/geode", "GeoDE", "worst_group_acc1"),
        ("wds_flickr30k_test", "Flickr", "mean_recall@1"),
        ("wds_mscoco_captions_test", "MSCOCO", "mean_recall@1"),
        ("WinoGAViL", "WinoGAViL", "jaccard_score_10-12"),
    ],
)
def test_folders_of_collections_map_to_sets(folder, name, metric):
    known = datacomp.task(folder)
    assert known is not None
    assert (known.name, known.metric, known.listed) == (name, metric, True)
    assert datacomp.metric(folder) == metric


def test_other_sets_are_measured_by_accuracy():
    assert datacomp.task("wds_fer2013") is None
    assert datacomp.metric("scenes-shape") == "acc1"
    waterbirds = datacomp.task("wds_waterbirds")
    assert waterbirds is not None
    assert (waterbirds.metric, waterbirds.listed) == ("worst_group_acc1", False)


def test_every_main_metric_can_be_measured_but_that_of_winogavil():
    every = {datacomp.metric(name): name for name in datacomp.task_names()}
    measured = {*METRICS, *METRIC_OF_CAPTIONS.values(), datacomp.MEAN_RECALL}
    assert {every[metric] for metric in every.keys() - measured} == set(datacomp.WITHOUT_READER)
    by_class = {n for n in datacomp.task_names() if "per_class" in datacomp.metric(n)}
    assert by_class == MEAN_PER_CLASS


def test_no_name_is_of_two_sets():
    names = [
        name
        for each in datacomp.TASKS
        for name in {datacomp.canonical(name) for name in (each.key, each.name, *each.aliases)}
    ]
    assert len(names) == len(set(names))


def test_prompts_are_those_of_the_folder(tmp_path):
    opened = open_set(write_set(tmp_path / "wds_wilds-iwildcam_test", grouped("a", "b")))
    ours, folders = prompts(opened, "datacomp"), prompts(opened, "clip_benchmark")
    assert (ours.texts, ours.metric, folders.metric) == (folders.texts, "macro_f1", "acc1")
    assert ours.fingerprint != folders.fingerprint
    assert protocol_files("datacomp", opened.directory) == protocol_files(
        "clip_benchmark", opened.directory
    )


def test_a_set_of_classes_is_no_retrieval_set_by_its_name(tmp_path):
    opened = open_set(write_set(tmp_path / "coco", grouped("a", "b")))
    assert prompts(opened, "datacomp").metric == "acc1"


# Groups of images ------------------------------------------------------------------------------


def test_groups_by_a_field_of_the_sample(tmp_path):
    root = write_set(tmp_path / "birds", grouped("on water", "on land", " on water"))
    assert read_groups(root) == ([1, 0, 1], ["on land", "on water"])


def test_groups_by_a_column_of_numbers_include_those_without_images(tmp_path):
    samples = [{"cls": b"0", "npy": npy(region, 2016, 1)} for region in (3, 0, 1)]
    root = write_set(tmp_path / "wds_wilds-fmow_test", samples)
    assert read_groups(root) == ([3, 0, 1], [f"region {number}" for number in range(4)])


def test_groups_by_background_and_class(tmp_path):
    samples = [
        {"cls": b"%d" % label, "npy": npy(background, label, dtype="float32")}
        for background, label in ((1, 0), (0, 1), (1, 1))
    ]
    root = write_set(tmp_path / "wds_wilds-waterbirds_test", samples)
    assert read_groups(root) == (
        [2, 1, 3],
        [f"background {background}, class {label}" for background in (0, 1) for label in (0, 1)],
    )


def test_numbers_of_other_sets_are_no_groups(tmp_path):
    root = write_set(tmp_path / "mine", [{"cls": b"0", "npy": npy(1)}])
    assert read_groups(root) is None


@pytest.mark.parametrize(
    ("name", "samples", "message"),
    [
        ("mine", grouped("a", None), "sample s1 has none, but sample s0 names its group"),
        ("mine", grouped(None, "a"), "sample s0 has none, but sample s1 names its group"),
        (
            "geode",
            [*grouped("a"), {"cls": b"0", "npy": npy(1)}],
            "sample s1 has it in another file, but sample s0",
        ),
        ("mine", [{"cls": b"0", "json": b'{"group": [3]}'}], "must give group as a text"),
        ("mine", [{"cls": b"0", "json": b'{"group": " "}'}], "must give group as a text"),
        ("mine", [{"cls": b"0", "json": b"{"}], "s0.json is not JSON"),
        ("geode", [{"cls": b"0", "npy": b"junk"}], "the region in column 0"),
        ("geode", [{"cls": b"0", "npy": npy()}], "the region in column 0"),
        ("geode", [{"cls": b"0", "npy": npy(-1)}], "has region -1 in column 0"),
        ("geode", [{"cls": b"0", "npy": npy(0.5, dtype="f4")}], "a whole number from 0"),
        ("geode", [{"cls": b"0", "npy": npy(float("nan"), dtype="f4")}], "a whole number from 0"),
        ("geode", [{"cls": b"0", "npy": npy(10**12)}], "a whole number from 0 to 9999"),
    ],
)
def test_what_is_no_group_is_one_message(tmp_path, name, samples, message):
    with pytest.raises(UserError, match=message) as raised:
        read_groups(write_set(tmp_path / name, samples))
    assert "0.tar" in str(raised.value)


# Metrics ---------------------------------------------------------------------------------------


def by_metric(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["metric"]: row for row in rows if "classname" not in row}


def test_worst_group_by_hand():
    # Three of four, one of three and all of two are right; the group "empty" has no image.
    ranks = np.array([0, 0, 0, 7, 0, 3, 5, 0, 0])
    numbers = np.array([0, 0, 0, 0, 2, 2, 2, 3, 3])
    rows = groups.group_rows(ranks, numbers, ["a", "empty", "b", "c"], 10)
    of_groups = {row["classname"]: row for row in rows if row["metric"] == "group_acc1"}
    assert {name: (row["value"], row["n"]) for name, row in of_groups.items()} == {
        "a": (0.75, 4), "b": (1 / 3, 3), "c": (1.0, 2)
    }  # fmt: skip
    found = by_metric(rows)
    assert found["worst_group_acc1"]["value"] == pytest.approx(1 / 3)
    assert found["worst_group_acc5"]["value"] == pytest.approx(2 / 3)  # 3/4, 2/3, 2/2
    assert (found["worst_group_acc1"]["n"], found["worst_group_acc1"]["chance"]) == (9, 0.1)
    assert (found["groups_without_images"]["value"], found["groups_without_images"]["n"]) == (1, 4)
    assert found["worst_group_acc1"]["low"] <= 1 / 3 <= found["worst_group_acc1"]["high"]


def test_one_group_is_no_worst_group():
    rows = groups.group_rows(np.array([0, 1]), np.array([0, 0]), ["all"], 2)
    assert [row["metric"] for row in rows] == ["group_acc1"]


def test_macro_f1_is_that_of_scikit_learn_over_the_classes_with_images():
    draw = np.random.default_rng(0)
    for classes in (2, 5, 30):
        labels = draw.integers(0, classes - 1, 200)  # the last class has no image
        answers = np.where(draw.random(200) < 0.5, labels, draw.integers(0, classes, 200))
        row = zeroshot.macro_f1_row(answers, labels, classes)
        expected = f1_score(
            labels, answers, average="macro", labels=np.unique(labels), zero_division=0
        )
        assert row["value"] == pytest.approx(expected, abs=1e-12)
        assert row["low"] <= row["value"] <= row["high"]
        recall = by_metric(
            zeroshot.accuracies((answers != labels).astype(int), labels, classes)
        )["mean_per_class_recall"]  # fmt: skip
        assert recall["value"] == pytest.approx(
            recall_score(labels, answers, average="macro", labels=np.unique(labels))
        )


def test_macro_f1_of_answers_that_are_all_right_or_all_wrong():
    labels = np.arange(60) % 3
    right, wrong = (zeroshot.macro_f1_row((labels + k) % 3, labels, 3) for k in (0, 1))
    assert (right["value"], right["high"], wrong["value"], wrong["low"]) == (1, 1, 0, 0)
    assert right["low"] == pytest.approx(wilson(60, 60)[0].item())


def test_the_interval_of_macro_f1_is_that_of_resampled_images():
    draw = np.random.default_rng(1)
    labels = draw.choice(4, 800, p=(0.5, 0.3, 0.15, 0.05))
    answers = np.where(draw.random(800) < 0.6, labels, draw.integers(0, 4, 800))
    row = zeroshot.macro_f1_row(answers, labels, 4)
    again = []
    for _ in range(1000):
        rows = draw.integers(0, 800, 800)
        again.append(f1_score(labels[rows], answers[rows], average="macro"))
    low, high = np.quantile(again, [0.025, 0.975])
    assert (row["low"], row["high"]) == pytest.approx((low, high), abs=0.008)


def test_the_interval_of_the_smallest_share_holds_it():
    draw = np.random.default_rng(2)
    for truth in ((0.3, 0.6, 0.8), (0.5, 0.5, 0.5, 0.5, 0.5, 0.5), (0.9, 0.2)):
        trials = np.full(len(truth), 60)
        held = []
        for _ in range(600):
            low, high = worst_of_shares(draw.binomial(trials, truth), trials)
            held.append(low <= min(truth) <= high)
        assert binom.cdf(sum(held), 600, 0.95) > 1e-3
    assert worst_of_shares(np.array([7]), np.array([10])) == pytest.approx(
        [limit.item() for limit in wilson(7, 10)], abs=1e-6
    )
    # Groups that are equally good need a wider interval, not a narrower one, at its upper end.
    one, many = (worst_of_shares(np.full(k, 30), np.full(k, 60)) for k in (1, 8))
    assert many[1] > one[1]
    assert many[0] == pytest.approx(one[0])


def test_a_share_of_independent_trials_has_wilsons_interval():
    assert share_of_variance(0.3, 0.3 * 0.7 / 50, 50) == pytest.approx(
        [limit.item() for limit in wilson(15, 50)]
    )
    assert share_of_variance(1.0, 0.0, 50) == pytest.approx([v.item() for v in wilson(50, 50)])


def test_mean_recall_is_the_mean_of_both_ways_with_an_interval_over_images():
    draw = np.random.default_rng(3)
    n = 300
    image_of_caption = np.repeat(np.arange(n), draw.integers(1, 6, n))
    images = draw.standard_normal((n, 6))
    captions = images[image_of_caption] + 0.7 * draw.standard_normal((len(image_of_caption), 6))
    images, captions = zeroshot.normalised(images), zeroshot.normalised(captions)
    found = by_metric(retrieval.recalls(images, captions, image_of_caption))
    row = found["mean_recall@1"]
    both = found["image_recall@1"]["value"], found["text_recall@1"]["value"]
    assert row["value"] == pytest.approx(np.mean(both))
    assert row["n"] == n
    image_ranks, text_ranks = retrieval.ranks(images, captions, image_of_caption)
    hits = np.bincount(image_of_caption, weights=image_ranks < 1)
    counts = np.bincount(image_of_caption)
    again = []
    for _ in range(2000):
        drawn = draw.integers(0, n, n)
        by_caption = hits[drawn].sum() / counts[drawn].sum()
        again.append((by_caption + (text_ranks[drawn] < 1).mean()) / 2)
    low, high = np.quantile(again, [0.025, 0.975])
    assert (row["low"], row["high"]) == pytest.approx((low, high), abs=0.008)


# The page --------------------------------------------------------------------------------------


def row_of(name: str, metric: str, value: float, **keys: Any) -> dict[str, Any]:
    return {
        "start": "untouched", "evaluation_set": name, "protocol": "datacomp", "metric": metric,
        "value": value, "low": value - 0.1, "high": value + 0.1, "n": 100, "seed": 0,
        "fingerprint": "0" * 16, **keys,
    }  # fmt: skip


def test_the_mean_is_over_the_main_metrics_of_the_sets_of_the_list():
    rows = [
        row_of("wds_vtab-pets_test", "mean_per_class_recall", 0.4),
        row_of("wds_vtab-pets_test", "acc1", 0.9),
        row_of("wds_vtab-pets_test", "mean_per_class_recall", 0.9, protocol="clip_benchmark"),
        row_of("fmow", "worst_group_acc1", 0.2),
        row_of("fmow", "group_acc1", 0.99, classname="region 1"),
        row_of("wds_flickr30k_test", "mean_recall@1", 0.6, protocol="captions"),
        row_of("scenes-shape", "acc1", 1.0),
        row_of("waterbirds", "worst_group_acc1", 1.0),
    ]
    (means,) = tables_of(tidy("zeroshot", rows), "")
    assert "3 of 38" in means.caption
    assert means.heads == ("model", "VTAB, 1 of 13", "Retrieval, 1 of 3", "Average, 3 of 38")
    (cells,) = means.rows
    assert [cell.value for cell in cells[1:]] == pytest.approx([0.4, 0.6, 0.4])
    # Limits of independent sets add up as variances do: 0.1 / sqrt(3).
    half = 0.1 / 3**0.5
    assert (cells[3].low, cells[3].high) == pytest.approx((0.4 - half, 0.4 + half))


def test_the_spread_of_a_mean_is_that_over_seeds():
    rows = [
        row_of(name, "acc1", value + seed / 10, start="pretrained", scheme="random", rate=0.1,
               seed=seed)
        for name, value in (("mnist", 0.2), ("gtsrb", 0.4)) for seed in (0, 1)
    ]  # fmt: skip
    (means,) = tables_of(tidy("zeroshot", rows), "")
    cell = means.rows[0][-1]
    assert (cell.value, cell.spread) == pytest.approx((0.35, 0.1 / 2**0.5))


def test_a_model_that_lacks_a_set_has_no_mean():
    rows = [row_of("mnist", "acc1", 0.2), row_of("gtsrb", "acc1", 0.2),
            row_of("mnist", "acc1", 0.3, start="pretrained", rate=0.0)]  # fmt: skip
    (means,) = tables_of(tidy("zeroshot", rows), "")
    assert [row[-1] for row in means.rows][1] == Number()


def test_without_the_protocol_there_is_no_table():
    retrieval_row = row_of("wds_flickr30k_test", "mean_recall@1", 0.6, protocol="captions")
    assert tables_of(tidy("zeroshot", [retrieval_row]), "") == []
    assert tables_of(tidy("zeroshot", [row_of("scenes-shape", "acc1", 1.0)]), "") == []


def test_models_that_are_compared_have_a_row_each():
    rows = [
        {**row_of(name, "acc1", value), "towers": towers, "start": None}
        for towers, value in (("clip", 0.2), ("laclip", 0.6))
        for name in ("wds_mnist", "wds_gtsrb")
    ]
    (means,) = tables_of(tidy("checkpoints", rows), "DataComp")
    values = {row[0]: row[1].value for row in means.rows}
    assert values == pytest.approx({"clip": 0.2, "laclip": 0.6})
