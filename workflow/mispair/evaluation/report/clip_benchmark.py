"""Results in the form of CLIP_benchmark: one JSON for each model, set and task.

``clip_benchmark build FOLDER --output benchmark.csv`` writes one table of all in a folder.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from mispair.report.exports.runs import file_name
from mispair.report.tables import CAPTIONS, LINEAR_PROBE, Tables, records
from mispair.towers.arms import Arm

TASKS = {
    CAPTIONS: ("zeroshot_retrieval", {
        f"{what}_retrieval_recall@{k}": f"{what}_recall@{k}"
        for k in (1, 5, 10) for what in ("image", "text")
    }),
    LINEAR_PROBE: ("linear_probe", {
        "lp_acc1": "probe_acc1", "lp_mean_per_class_recall": "probe_mean_per_class_recall",
    }),
}  # fmt: skip
"""For each protocol its task, and CLIP_benchmark's names of its metrics."""

ZEROSHOT = ("zeroshot_classification", {
    name: name for name in ("acc1", "acc5", "mean_per_class_recall")
})  # fmt: skip
"""Every protocol of classification by prompts."""

SELECTION = ("image_caption_selection", {"acc": "selection_acc", "text_acc": "selection_acc"})
"""Sets in which the true caption of an image is chosen."""

PAIRS = {"acc": "group_score", "text_acc": "text_score", "image_acc": "image_score"}
"""CLIP_benchmark's names for sets of two images and two captions."""

LANGUAGE = "en"

Result = dict[str, Any]


def results(tables: Tables) -> dict[str, Result]:
    """Return all results by path: a folder for each protocol, and a file for each result.

    For an arm, ``model`` is the frozen pair of towers and ``pretrained`` the arm with its seed. For
    a checkpoint they are its architecture and its name. The keys that CLIP_benchmark does not write
    identify the arm; its table has them as further columns.
    """
    contents: dict[str, dict[str, Any]] = {}
    values: dict[str, dict[str, float]] = {}
    for row in [*records(tables.zeroshot), *records(tables.checkpoints)]:
        keys = {key: _plain(value) for key, value in row.items()}
        if keys["protocol"] is None or keys.get("classname") is not None:
            continue
        path, result = _result(keys)
        contents.setdefault(path, result)
        values.setdefault(path, {})[keys["metric"]] = row["value"]
    for path, result in contents.items():
        of_path = values[path]
        _, names = _task(result["protocol"], "selection_acc" in of_path)
        if "group_score" in of_path:
            names = PAIRS
        result["metrics"] = {new: _finite(of_path.get(old, math.nan)) for new, old in names.items()}
    return contents


def _task(protocol: str, chosen: bool) -> tuple[str, dict[str, str]]:
    return SELECTION if chosen else TASKS.get(protocol, ZEROSHOT)


def _result(keys: dict[str, Any]) -> tuple[str, Result]:
    """Return the path of the result that a row belongs to, and the result without numbers."""
    task, _ = _task(keys["protocol"], keys["headline"] == "selection_acc")
    is_arm = "start" in keys
    model = keys["towers"] if is_arm else keys["architecture"]
    result: Result = {
        "dataset": keys["evaluation_set"],
        "model": str(model),
        "pretrained": _arm(keys) if is_arm else str(keys["towers"]),
        "task": task,
        "metrics": {},
        "language": LANGUAGE,
        "protocol": keys["protocol"],
        **{key: keys[key] for key in ("start", "scheme", "rate", "seed") if key in keys},
    }
    parts = [result[key] for key in ("dataset", "pretrained", "model", "language", "task")]
    return f"{file_name(keys['protocol'])}/{file_name('_'.join(parts))}.json", result


def _arm(keys: dict[str, Any]) -> str:
    """Return a name of the arm, as in result paths, with its seed if there are several."""
    arm = Arm(keys["start"], keys["scheme"], keys["rate"])
    return str(arm) if arm.scheme is None else f"{arm}_seed~{keys['seed']}"


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _plain(value: Any) -> Any:
    """Return a cell of a table for JSON: whole numbers as int, missing values as None."""
    if value is None or pd.isna(value):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return value
