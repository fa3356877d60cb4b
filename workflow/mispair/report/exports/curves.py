"""What runs recorded from step to step, and what came out, as curves for trackers of experiments.

A curve is made from results that are whole: a training that was interrupted and went on has every
step in them once, so steps never go back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from mispair.evaluation.report.clip_benchmark import file_name
from mispair.report.tables import Tables, records

SCORES = {
    "zeroshot": (
        "acc1", "acc5", "mean_per_class_recall", "silhouette", "image_recall@1", "image_recall@5",
        "text_recall@1", "text_recall@5", "probe_acc1",
    ),
    "purity": ("mean_abs_cosine", "participation_ratio"),
}  # fmt: skip
"""Metrics of an arm and seed that stand at the end of its training, by table."""

DISTINGUISHING = ("tower", "source", "definition", "prompts", "margin", "bias")
"""Columns of the simulation that tell curves of a metric apart."""


@dataclass(frozen=True)
class Curve:
    """Values of a quantity at ascending steps."""

    tag: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Run:
    """A training: its name with slashes, as a tracker groups runs, what it is, and its curves."""

    name: str
    about: Mapping[str, Any]
    curves: tuple[Curve, ...]


def thinned(tag: str, values: np.ndarray, points: int) -> Curve:
    """Return the values of steps 0, 1, ... as at most so many points.

    A point is the mean of as many neighbouring values as the others, at the last of their steps.
    """
    ends = np.linspace(0, len(values), min(points, len(values)) + 1).astype(int)
    means = [float(np.mean(values[a:b])) for a, b in pairwise(ends)]
    return Curve(tag, tuple((ends[1:] - 1).tolist()), tuple(means))


def fine_tuning(
    losses: Iterable[tuple[Mapping[str, Any], np.ndarray]], tables: Tables, points: int
) -> list[Run]:
    """Return a run for each seed of each arm: the loss of its steps, and its scores after the last.

    Parameters
    ----------
    losses : iterable of (mapping, (s, steps) array)
        ``start``, ``scheme``, ``rate`` and ``seeds`` of an arm, and the loss of each seed's steps.
    tables : Tables
        All measurements.
    points : int
        Most points of a curve.
    """
    scores = _scores(tables)
    found = []
    for about, stack in losses:
        for seed, loss in zip(about["seeds"], stack, strict=True):
            arm = (about["start"], about["scheme"], about["rate"], float(seed))
            last = len(loss) - 1
            name = f"fine-tuning/{about['start']}_{about['scheme']}~{about['rate']:g}/seed~{seed}"
            keys = dict(zip(("start", "scheme", "rate", "seed"), arm, strict=True))
            ends = [Curve(tag, (last,), (value,)) for tag, value in scores.get(arm, [])]
            found.append(Run(_path(name), keys, (thinned("loss", loss, points), *ends)))
    return found


def _scores(tables: Tables) -> dict[tuple[Any, ...], list[tuple[str, float]]]:
    found: dict[tuple[Any, ...], list[tuple[str, float]]] = {}
    for table, metrics in SCORES.items():
        own = getattr(tables, table)
        for row in records(own[own["metric"].isin(metrics) & own["rate"].notna()]):
            where = [row.get("evaluation_set"), row.get("protocol"), row.get("tower")]
            tag = _tag([row["metric"], *where])
            arm = (row["start"], row["scheme"], row["rate"], row["seed"])
            found.setdefault(arm, []).append((tag, row["value"]))
    return found


def simulation(tables: Tables) -> list[Run]:
    """Return a run for each trial and arm of the simulation: its dynamics over epochs and steps."""
    table = tables.simulation
    keys = ["condition", "spurious_probability", "trained_on", "trial"]
    own = table[table["bin_low"].isna() & table[["epoch", "step"]].notna().any(axis=1)]
    found = []
    for (condition, probability, arm, trial), group in own.groupby(keys, sort=True):
        name = f"simulation/{condition}/cs~{probability:g}/{arm}/trial~{trial:g}"
        curves: dict[str, dict[int, float]] = {}
        for row in records(group):
            tag = _tag([row["metric"], *(row[key] for key in DISTINGUISHING)])
            step = row["epoch"] if pd.isna(row["step"]) else row["step"]
            curves.setdefault(tag, {})[int(step)] = row["value"]
        about = dict(zip(keys, (condition, probability, arm, trial), strict=True))
        found.append(Run(_path(name), about, tuple(_sorted(curves))))
    return found


def _sorted(curves: Mapping[str, Mapping[int, float]]) -> Iterable[Curve]:
    for tag, points in sorted(curves.items()):
        steps = sorted(points)
        yield Curve(tag, tuple(steps), tuple(float(points[step]) for step in steps))


def pretraining(name: str, training: Mapping[str, Any]) -> Run:
    """Return the run of towers that were trained: the loss of each epoch (``training.json``)."""
    points = {int(row["epoch"]): float(row["loss"]) for row in training["losses"]}
    return Run(_path(f"pretraining/{name}"), {"towers": name}, tuple(_sorted({"loss": points})))


def _tag(parts: Iterable[Any]) -> str:
    """Join what is there of the parts of a name, in letters that every tracker takes."""
    words = (
        f"{part:g}" if isinstance(part, float) else str(part) for part in parts if not pd.isna(part)
    )
    return "/".join(re.sub(r"[^\w. -]", "_", word.replace("@", "_at_")) for word in words)


def _path(name: str) -> str:
    return "/".join(file_name(part) for part in name.split("/"))
