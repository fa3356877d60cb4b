"""CLIP and LaCLIP checkpoints beside tables 2 and 3."""

import json
import math
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from scipy import stats

from mispair.core import files, metrics
from mispair.laclip.report.claims import CLAIMS, QUESTIONS, pairs, published_name, scores
from mispair.laclip.report.pages import checkpoints, next_to_published, overlap
from mispair.laclip.report.rows import checkpoint
from mispair.report import published, questions, rules, studies
from mispair.report.figures import compose
from mispair.report.judge import Verdict, judge
from mispair.report.table import Cell, Number
from mispair.report.tables import Tables
from tests.made_up_tables import gather, tables

SETS = {"wds_food101": "Food-101", "wds_cifar10": "CIFAR-10",
        "wds_vtab-caltech101": "Caltech-101", "wds_vtab-cifar100": "CIFAR-100",
        "wds_vtab-pets": "Pets", "wds_stl10": "STL-10"}  # fmt: skip
PRETRAININGS = ("CC12M", "RedCaps", "LAION-400M")


def model(
    method: str, values: dict[str, float], pretraining: str = "CC12M", protocol: str = "laclip",
    metric: str = "acc1", **more: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the rows of one model: a headline number of each set, with an interval of 1 point."""
    about = {"pretraining": pretraining, "method": method, "architecture": "ViT-B/16",
             "towers": f"{pretraining}-{method}".lower(), "protocol": protocol,
             "headline": metric, "metric": metric, "fingerprint": "c" * 16, "n": 1000}  # fmt: skip
    return [
        {**about, "evaluation_set": name, "value": value, "low": value - 0.01, "high": value + 0.01}
        | more
        for name, value in values.items()
    ]


def paper(pretraining: str, method: str, column: str = "accuracy") -> dict[str, float]:
    table = published.checkpoints()
    own = table[(table["pretraining"] == pretraining) & (table["method"] == method)]
    by_set = own.set_index("dataset")[column]
    return {name: float(by_set[dataset]) for name, dataset in SETS.items()}


def everything() -> list[dict[str, Any]]:
    """Return rows of models that are exactly as published."""
    rows = []
    for pretraining in PRETRAININGS:
        for method in ("CLIP", "LaCLIP"):
            rows += model(method, paper(pretraining, method), pretraining)
            rows += model(method, paper(pretraining, method, "silhouette"), pretraining,
                          metric="silhouette", protocol=None, fingerprint=None)  # fmt: skip
    return rows


def judged(found: Tables) -> dict[str, Verdict]:
    return {claim.key: judge(claim, found, 0.95) for claim in CLAIMS}


def accuracy_rows(found: Tables) -> dict[tuple[Cell, Cell], tuple[Cell, ...]]:
    return {(row[1], row[2]): row for row in next_to_published(found).rows}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("wds_food101", "Food-101"), ("vtab-caltech101", "Caltech-101"), ("wds/vtab/pets", "Pets"),
     ("Oxford-IIIT-Pet", "Pets"), ("cifar10", "CIFAR-10"), ("vtab_cifar100", "CIFAR-100"),
     ("STL10", "STL-10"), ("imagenet1k", "ImageNet-1k"), ("handwritten-digits", None)],
)  # fmt: skip
def test_evaluation_sets_are_matched_with_published_ones(name, expected):
    assert published_name(name) == expected


def test_published_tables_are_those_of_the_paper():
    table = published.checkpoints().set_index(["pretraining", "method", "dataset"])
    assert table.loc[("CC12M", "LaCLIP", "Food-101"), "accuracy"] == pytest.approx(0.607)
    assert table.loc[("RedCaps", "CLIP", "CIFAR-100"), "silhouette"] == pytest.approx(-0.002)
    assert table.loc[("CC12M", "CLIP", "ImageNet-1k"), "accuracy"] == pytest.approx(0.3504)
    assert len(table) == 3 * 2 * 7
    own = published.laclip_imagenet().set_index(["pretraining", "architecture", "method"])
    assert own.loc[("CC12M", "ViT-B/16", "LaCLIP"), "accuracy"] == pytest.approx(0.484)
    assert own.loc[("LAION-400M", "ViT-L/14", "CLIP"), "accuracy"] == pytest.approx(0.718)
    assert len(own) == 12


def test_numbers_as_published_are_not_flagged_and_support_the_claims():
    found = tables(checkpoints=everything())
    assert not any(score.flagged for measure in ("acc1", "silhouette")
                   for score in scores(found, measure))  # fmt: skip
    verdicts = judged(found)
    table = published.checkpoints()
    table = table[table["dataset"].isin(SETS.values())]
    for key, column in (("laclip-accuracy", "accuracy"), ("laclip-silhouette", "silhouette")):
        wide = table.pivot_table(index=["pretraining", "dataset"], columns="method", values=column)
        gains = (wide["LaCLIP"] - wide["CLIP"]).groupby("pretraining").mean()
        effect = verdicts[key].effect
        assert (effect.value, effect.n) == (pytest.approx(gains.mean()), 3)
        test = stats.ttest_1samp(gains, 0.0)
        assert effect.p == pytest.approx(test.pvalue)
        limits = test.confidence_interval(0.95)
        assert (effect.low, effect.high) == pytest.approx((limits.low, limits.high))
        of_sets = {part.name: part.effect.value for part in verdicts[key].sets}
        by_set = (wide["LaCLIP"] - wide["CLIP"]).groupby("dataset").mean()
        assert of_sets == pytest.approx({name: by_set[SETS[name]] for name in SETS})
    # With table 3's ImageNet, 21 differences.
    every = published.checkpoints().pivot_table(
        index=["pretraining", "dataset"], columns="method", values="accuracy"
    )
    mean = float((every["LaCLIP"] - every["CLIP"]).mean())
    assert verdicts["laclip-accuracy"].bound == pytest.approx(mean / 3)


@pytest.mark.parametrize(
    ("gains", "expected"),
    [((0.1, 0.11, 0.09), "supports"), ((-0.1, -0.11, -0.09), "contradicts"),
     ((0.1, 0.0, -0.1), "cannot tell"), ((0.001, 0.002, -0.001), "no such effect"),
     ((0.1,), "cannot tell")],
)  # fmt: skip
def test_data_sets_of_pre_training_are_the_replicates(gains, expected):
    """However many sets two models answer, they are one replicate."""
    rows = []
    for name, gain in zip(PRETRAININGS, gains, strict=False):
        rows += model("CLIP", dict.fromkeys(SETS, 0.5), name)
        rows += model("LaCLIP", dict.fromkeys(SETS, 0.5 + gain), name)
    verdict = judged(tables(checkpoints=rows))["laclip-accuracy"]
    assert (verdict.outcome, verdict.effect.n) == (expected, len(gains))


def test_most_sets_against_the_mean_forbid_support():
    rows = []
    for number, name in enumerate(PRETRAININGS):
        values = dict.fromkeys([*SETS][:3], 0.48 - 0.001 * number) | dict.fromkeys([*SETS][3:], 0.7)
        rows += model("CLIP", dict.fromkeys(SETS, 0.5), name) + model("LaCLIP", values, name)
    verdict = judged(tables(checkpoints=rows))["laclip-accuracy"]
    assert (verdict.outcome, verdict.reason) == ("cannot tell", "most sets go the other way")


def test_one_model_alone_leaves_the_claim_unmeasured_and_its_partner_a_hole():
    found = tables(checkpoints=model("CLIP", {"wds_food101": 0.51}))
    assert judged(found)["laclip-accuracy"].outcome == "not measured"
    assert judged(tables())["laclip-accuracy"].outcome == "not measured"
    table = next_to_published(found)
    holes = [row for row in table.rows if Number() in row and row[3] == "acc1"]
    assert len(holes) == 14 - 1  # CC12M: two methods on seven data sets
    assert ("CC12M LaCLIP", "Food-101") in {(row[0], row[2]) for row in holes}
    assert {len(row) for row in table.rows} == {len(table.heads)}
    assert "No model of RedCaps and LAION-400M is in this run." in table.remark
    assert checkpoints(tables()) == []


def test_models_of_another_kind_are_no_pair():
    clip = model("CLIP", {"wds_food101": 0.5})
    for other in ({"architecture": "ViT-L/14"}, {"fingerprint": "d" * 16}, {"pretraining": "CC3M"}):
        laclip = model("LaCLIP", {"wds_food101": 0.6}, **other)
        assert pairs(tables(checkpoints=clip + laclip), "acc1") == []


def test_a_difference_of_one_point_is_not_flagged():
    found = tables(checkpoints=model("CLIP", {"wds_food101": 0.518, "wds_stl10": 0.9211}))
    marks = {score.dataset: score.flagged for score in scores(found, "acc1")}
    assert marks == {"Food-101": False, "STL-10": True}


def test_imagenet_stands_beside_both_published_numbers():
    row = accuracy_rows(tables(checkpoints=model("CLIP", {"wds_imagenet1k": 0.401})))
    cells = row["cc12m-clip", "wds_imagenet1k"]
    assert (cells[4].low, cells[4].high) == pytest.approx((39.1, 41.1))
    assert [cell.value for cell in cells[4:7]] == pytest.approx([40.1, 35.04, 5.06])
    assert cells[5].beside.value == pytest.approx(40.2)
    assert [bool(cell.mark) for cell in cells[4:7]] == [False, False, True]


def test_every_protocol_is_a_row_and_the_claim_takes_the_main_one():
    rows = model("CLIP", {"wds_food101": 0.5}) + model("LaCLIP", {"wds_food101": 0.6})
    rows += model("CLIP", {"wds_food101": 0.6}, protocol="clip_benchmark")
    rows += model("LaCLIP", {"wds_food101": 0.5}, protocol="clip_benchmark")
    found = tables(checkpoints=rows)
    table = next_to_published(found)
    assert [row[3] for row in table.rows if row[2] == "wds_food101"] == [
        "clip_benchmark #cccccccc acc1", "laclip #cccccccc acc1",
    ] * 2  # fmt: skip
    assert judged(found)["laclip-accuracy"].effect.value == pytest.approx(-0.1)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"recipe": "laclip-cc", "architecture": "recipe laclip-cc"}, "ViT-B/16"),
        ({"recipe": "laclip-laion", "model": "ViT-L-14"}, "ViT-L/14"),
        ({"recipe": "laclip-laion", "architecture": "recipe laclip-laion with model ViT-B-32"},
         "ViT-B/32"),
        ({"model": "ViT-B-32-quickgelu"}, "ViT-B/32"),
        ({"model": "RN50"}, "RN50"),
    ],
)  # fmt: skip
def test_the_architecture_is_read_from_what_the_folder_says(spec, expected):
    assert checkpoint(spec)["architecture"] == expected


def test_checkpoints_are_gathered_with_their_labels(tmp_path):
    spec = {"name": "mine", "recipe": "laclip-cc", "pretraining": "CC3M", "method": "LaCLIP",
            "sha256": "a" * 64, "mean": [0.485, 0.456, 0.406]}  # fmt: skip
    files.write_text(tmp_path / "towers/mine/config.json", json.dumps({"mispair": spec}))
    rows = [{"evaluation_set": "wds_food101", "protocol": "laclip", "metric": metric, "seed": 0,
             "value": 0.1, **more}
            for metric, more in (("acc1", {}), ("class_recall", {"classname": "pie"}))]  # fmt: skip
    path = tmp_path / "checkpoints/mine/untouched/zeroshot.json"
    about = {"headline": {"wds_food101": {"laclip": "acc1"}}}
    metrics.write_metrics(path, rows, {"projection": {"start": "untouched"}, **about})
    purity = tmp_path / "checkpoints/mine/untouched/purity.json"
    parts = ({}, {"neuron": 0})
    rows = [{"tower": "text", "metric": f"measure {number}", "seed": 0, "value": 0.06, **part}
            for number, part in enumerate(parts)]  # fmt: skip
    metrics.write_metrics(purity, rows, {"projection": {"start": "untouched"}})
    results = {
        "checkpoint_zeroshot": [path], "checkpoint_purity": [purity],
        "checkpoint_origins": [tmp_path / "towers/mine/config.json"],
    }  # fmt: skip
    models = json.dumps({"mine": {"pretraining": "CC3M", "method": "LaCLIP"}})
    found = gather(results, tmp_path / "gathered", models)
    row, overlap = found.checkpoints.sort_values("metric").to_dict("records")
    # Of purity, what is of the whole projection: no single neurons.
    assert (overlap["metric"], overlap["tower"], overlap["value"]) == ("measure 0", "text", 0.06)
    assert (overlap["towers"], overlap["method"]) == ("mine", "LaCLIP")
    assert found.purity.empty
    assert (row["towers"], row["pretraining"], row["method"]) == ("mine", "CC3M", "LaCLIP")
    assert (row["architecture"], row["headline"]) == ("ViT-B/16", "acc1")
    assert found.study("laclip")
    assert not found.study("image_text")


def test_the_figure_shows_measured_and_published_points():
    figure = next(f for f in studies.figures("laclip"))
    _, data = compose(figure, tables(checkpoints=everything()))
    assert isinstance(data, pd.DataFrame)
    assert data["what"].value_counts().to_dict() == {"measured": 72, "published": 72}
    hole, _ = compose(figure, tables())
    assert hole["usermeta"]["mispair"]["hole"] == "the LaCLIP study was not run"


def overlapping(*pairs: tuple[str, float, float], image: int = 1) -> Tables:
    """Return overlaps of CLIP and LaCLIP models; of image neurons in the reverse if image is -1."""
    rows = [
        {"pretraining": pretraining, "architecture": "ViT-B/16", "method": method, "tower": tower,
         "towers": f"{pretraining}-{method}".lower(), "metric": metric, "value": value}
        for pretraining, clip, laclip in pairs
        for tower, sign in (("text", 1), ("image", image))
        for method, directions in zip(("CLIP", "LaCLIP"), (clip, laclip)[::sign], strict=True)
        for metric, value in (("participation_ratio", directions),
                              ("mean_abs_cosine", 0.8 / directions**0.5))
    ]  # fmt: skip
    return tables(checkpoints=rows)


WIDER = (("CC3M", 60, 90), ("CC12M", 80, 118), ("RedCaps", 70, 106))


@pytest.mark.parametrize(
    ("models", "image", "outcome"),
    [
        (WIDER, 1, "supports"),
        (WIDER, -1, "contradicts"),  # the image towers go the other way
        (tuple((name, second, first) for name, first, second in WIDER), 1, "contradicts"),
        ((("CC3M", 90, 90.1), ("CC12M", 80, 80.3), ("RedCaps", 70, 69.8)), 1, "no such effect"),
        (WIDER[:1], 1, "cannot tell"),
        ((WIDER[0], ("CC12M", 90, 60)), 1, "cannot tell"),
    ],
)
def test_neurons_of_laclip_are_predicted_to_overlap_less(models, image, outcome) -> None:
    verdict = judged(overlapping(*models, image=image))["laclip-overlap"]
    assert verdict.outcome == outcome
    mean = sum(math.log(laclip / clip) for _, clip, laclip in models) / len(models)
    values = {part.name: part.effect.value for part in verdict.parts}
    assert values == pytest.approx({"text": mean, "image": image * mean})
    assert verdict.bound == pytest.approx(math.log(144.8 / 90.4) / 3, rel=1e-2)


def test_models_of_several_architectures_of_one_data_set_are_one_replicate() -> None:
    found = overlapping(*WIDER).checkpoints
    large = found[found["pretraining"] == "CC3M"].assign(architecture="ViT-L/14", towers="large")
    both = pd.concat([found, large], ignore_index=True)
    assert judged(Tables({"checkpoints": both}))["laclip-overlap"].effect.n == 3


def test_overlap_needs_a_model_of_each_method() -> None:
    alone = overlapping(("CC3M", 60, 90))
    rows = alone.checkpoints[alone.checkpoints["method"] == "LaCLIP"]
    found = Tables({"checkpoints": rows})
    assert judged(found)["laclip-overlap"].outcome == "not measured"
    assert judged(Tables({}))["laclip-overlap"].outcome == "not measured"
    (row,) = overlap(found).rows
    assert row[:2] == ("cc3m-laclip", "CC3M")
    assert row[6] == Number(90, 1)


@pytest.mark.parametrize("outcome", rules.OUTCOMES[:-1])
def test_every_sentence_renders_for_each_outcome(outcome: Any) -> None:
    found = overlapping(*WIDER)
    (question,) = QUESTIONS
    answer = questions.answered("laclip", question, [*judged(found).values()], found, 0.95)
    answer = replace(answer, lead=(replace(answer.lead[0], outcome=outcome),))
    assert answer.sentence.endswith(".")
    assert answer.limit.endswith(".")
