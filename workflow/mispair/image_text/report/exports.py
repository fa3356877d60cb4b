"""Curves for TensorBoard: the losses of trainings, and the scores of arms after the last step."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mispair.core import files
from mispair.report.curves import (
    Curve,
    TrainingCurves,
    in_order,
    path_of,
    tag_of,
    thinned,
)
from mispair.report.tables import Tables, records
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
