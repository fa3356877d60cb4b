"""Results for other tools: curves for TensorBoard, and the form of CLIP_benchmark.

``clip_benchmark build FOLDER --output benchmark.csv`` writes one table of all results in a folder:
one JSON for each model, set and task.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mispair.core import files
from mispair.report.curves import (
    Curve,
    TrainingCurves,
    file_name,
    in_order,
    path_of,
    tag_of,
    thinned,
)
from mispair.report.tables import CAPTIONS, LINEAR_PROBE, Tables, records
from mispair.towers.arms import Arm

SCORES = {
    "zeroshot": (
        "acc1", "acc5", "mean_per_class_recall", "silhouette", "image_recall@1", "image_recall@5",
        "text_recall@1", "text_recall@5", "probe_acc1",
    ),
    "purity": ("mean_abs_cosine", "participation_ratio"),
}  # fmt: skip
"""Metrics of an arm and seed that are shown at the end of its training, by table."""


def runs(
    tables: Tables, trained: Mapping[str, Sequence[Path]], points: int
) -> list[TrainingCurves]:
    """Return the fine-tunings, and the training of towers that this run trained."""
    return [
        *fine_tuning(map(_losses, trained.get("projection", [])), tables, points),
        *(
            pretraining(path.parent.name, files.read_json(path))
            for path in trained.get("training", [])
        ),
    ]


def _losses(path: Path) -> tuple[dict[str, Any], np.ndarray]:
    tensors, run = files.read_tensors(path, only=["loss"])
    arm = {"start": run["start"], "scheme": run["scheme"], "rate": float(run["rate"])}
    return {**arm, "seeds": json.loads(run["seeds"])}, tensors["loss"]


def fine_tuning(
    losses: Iterable[tuple[Mapping[str, Any], np.ndarray]], tables: Tables, points: int
) -> list[TrainingCurves]:
    """Return a run for each seed of each arm: the loss of its steps, and its scores after the last.

    Each of `losses` has an arm (``start``, ``scheme``, ``rate`` and ``seeds``) and the losses of
    its steps by seed, (s, steps). A curve has at most `points` points.
    """
    scores = _scores(tables)
    runs = []
    for metadata, stack in losses:
        for seed, loss in zip(metadata["seeds"], stack, strict=True):
            arm = Arm(metadata["start"], metadata["scheme"], metadata["rate"])
            last = len(loss) - 1
            scored = scores.get((*arm, float(seed)), [])
            ends = [Curve(tag, (last,), (value,)) for tag, value in scored]
            name = path_of(f"fine-tuning/{arm}/seed~{seed}")
            keys = {**arm._asdict(), "seed": float(seed)}
            runs.append(TrainingCurves(name, keys, (thinned("loss", loss, points), *ends)))
    return runs


def _scores(tables: Tables) -> dict[tuple[Any, ...], list[tuple[str, float]]]:
    by_arm: dict[tuple[Any, ...], list[tuple[str, float]]] = {}
    for table, metrics in SCORES.items():
        rows = getattr(tables, table)
        for row in records(rows[rows["metric"].isin(metrics) & rows["rate"].notna()]):
            where = [row.get("evaluation_set"), row.get("protocol"), row.get("tower")]
            tag = tag_of([row["metric"], *where])
            arm = (row["start"], row["scheme"], row["rate"], row["seed"])
            by_arm.setdefault(arm, []).append((tag, row["value"]))
    return by_arm


def pretraining(name: str, training: Mapping[str, Any]) -> TrainingCurves:
    """Return the run of towers that were trained: the loss of each epoch (``training.json``)."""
    points = {int(row["epoch"]): float(row["loss"]) for row in training["losses"]}
    return TrainingCurves(
        path_of(f"pretraining/{name}"), {"towers": name}, tuple(in_order({"loss": points}))
    )


# CLIP_benchmark's form

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
