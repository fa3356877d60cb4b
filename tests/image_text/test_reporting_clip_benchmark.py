"""Results in CLIP_benchmark's form, read by its own builder."""

from __future__ import annotations

import csv
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from clip_benchmark.cli import main_build

from mispair.image_text.report.exports import file_name, results
from mispair.report.tables import Tables, tidy

ARM = {"start": "pretrained", "scheme": "random", "rate": 0.5, "towers": "towers"}


def tables() -> Tables:
    """Two seeds of an arm and the untouched model on two sets, with classes, and a checkpoint."""
    zeroshot = []
    for seed, arm in ((0, ARM), (1, ARM), (0, {"start": "untouched", "towers": "towers"})):
        for name in ("wds/cifar10", "digits"):
            own = {**arm, "evaluation_set": name, "seed": seed, "fingerprint": "f"}
            values = {"acc1": 0.5 + seed / 8, "mean_per_class_recall": 0.4}
            values |= {"acc5": 0.9} if name == "digits" else {}
            own["protocol"] = "clip_benchmark"
            zeroshot += [{**own, "metric": key, "value": value} for key, value in values.items()]
            zeroshot.append({**own, "metric": "class_recall", "classname": "acc1", "value": 0.1})
            zeroshot.append({**own, "protocol": None, "metric": "silhouette", "value": 0.3})
    retrieval = {**ARM, "evaluation_set": "pairs", "seed": 0, "protocol": "captions"}
    zeroshot += [
        {**retrieval, "metric": f"{what}_recall@{k}", "value": k / 10}
        for what in ("image", "text")
        for k in (1, 5, 10)
    ]
    probe = {**ARM, "evaluation_set": "digits", "seed": 0, "protocol": "linear-probe"}
    zeroshot.append({**probe, "metric": "probe_acc1", "value": 0.75})
    checkpoint = {"architecture": "ViT-B/16", "towers": "laclip-cc12m", "protocol": "laclip",
                  "evaluation_set": "digits", "metric": "acc1", "value": 0.25}  # fmt: skip
    return Tables(
        {"zeroshot": tidy("zeroshot", zeroshot), "checkpoints": tidy("checkpoints", [checkpoint])}
    )


def built(folder: Path, tmp_path: Path) -> list[dict[str, str]]:
    """Let CLIP_benchmark make its table of a folder."""
    output = tmp_path / "benchmark.csv"
    main_build(Namespace(files=[str(folder)], output=str(output)))
    with output.open() as opened:
        return list(csv.DictReader(opened))


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_its_own_builder_makes_a_table_of_them(tmp_path: Path) -> None:
    for name, result in results(tables()).items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(result, allow_nan=False))
    rows = built(tmp_path / "clip_benchmark", tmp_path)
    assert len(rows) == 6  # three of two sets; no row of a class became one
    (one,) = [r for r in rows if r["dataset"] == "digits" and r["seed"] == "1"]
    assert one["model_fullname"] == "towers pretrained_random~0.5_seed~1"
    assert one["task"] == "zeroshot_classification"
    assert one["language"] == "en"
    assert [float(one[key]) for key in ("acc1", "acc5", "mean_per_class_recall")] == [
        0.625, 0.9, 0.4,
    ]  # fmt: skip
    # A set of fewer than five classes has no acc5.
    assert {r["acc5"] for r in rows if r["dataset"] == "wds/cifar10"} == {""}
    (pairs,) = built(tmp_path / "captions", tmp_path)
    assert pairs["task"] == "zeroshot_retrieval"
    assert [pairs[f"{what}_retrieval_recall@5"] for what in ("image", "text")] == ["0.5", "0.5"]
    (probe,) = built(tmp_path / "linear-probe", tmp_path)
    assert (probe["task"], probe["lp_acc1"]) == ("linear_probe", "0.75")
    (checkpoint,) = built(tmp_path / "laclip", tmp_path)
    assert (checkpoint["model"], checkpoint["pretrained"]) == ("ViT-B/16", "laclip-cc12m")
    assert float(checkpoint["acc1"]) == 0.25


def test_names_of_data_make_no_folders(tmp_path: Path) -> None:
    assert file_name("../../etc/passwd") == "-..-etc-passwd"
    assert all(name.count("/") == 1 for name in results(tables()))


def test_without_measurements_there_is_no_result() -> None:
    assert results(Tables({})) == {}


def test_a_choice_of_captions_has_clip_benchmarks_names():
    def chosen(**values: float) -> dict[str, Any]:
        here = {"start": "untouched", "towers": "small", "evaluation_set": "choices",
                "protocol": "captions", "headline": "selection_acc"}  # fmt: skip
        rows = [{**here, "metric": metric, "value": value} for metric, value in values.items()]
        (result,) = results(Tables({"zeroshot": tidy("zeroshot", rows)})).values()
        assert result["task"] == "image_caption_selection"
        return result["metrics"]

    assert chosen(selection_acc=0.8) == {"acc": 0.8, "text_acc": 0.8}
    pairs = chosen(selection_acc=0.8, text_score=0.3, image_score=0.2, group_score=0.1)
    assert pairs == {"acc": 0.1, "text_acc": 0.3, "image_acc": 0.2}
