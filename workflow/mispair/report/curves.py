"""Runs and their curves, as TensorBoard takes them.

Curves are made from complete results. A resumed training has every step in them once, so steps
never go back.
"""

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Curve:
    """Values of a quantity at ascending steps."""

    tag: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class TrainingCurves:
    """A training: its name, whose slashes group runs in TensorBoard, its keys and its curves."""

    name: str
    about: Mapping[str, Any]
    curves: tuple[Curve, ...]


def thinned(tag: str, values: np.ndarray, points: int) -> Curve:
    """Return the values of steps 0, 1, ... as at most `points` points.

    Each point is the mean of nearly equally many neighbouring values, at the last of their steps.
    """
    ends = np.linspace(0, len(values), min(points, len(values)) + 1).astype(int)
    means = [float(np.mean(values[a:b])) for a, b in pairwise(ends)]
    return Curve(tag, tuple((ends[1:] - 1).tolist()), tuple(means))


def in_order(curves: Mapping[str, Mapping[int, float]]) -> Iterable[Curve]:
    """Yield a curve for each name, from its values by step."""
    for tag, points in sorted(curves.items()):
        steps = sorted(points)
        yield Curve(tag, tuple(steps), tuple(float(points[step]) for step in steps))


def tag_of(parts: Iterable[Any]) -> str:
    """Join the parts of a name that are not missing, in letters that TensorBoard keeps."""
    names = (
        f"{part:g}" if isinstance(part, float) else str(part) for part in parts if not pd.isna(part)
    )
    return "/".join(re.sub(r"[^\w. -]", "_", word.replace("@", "_at_")) for word in names)


def file_name(text: str) -> str:
    """Return a text as a file name: letters, digits and ``. _ ~ @ = -`` are kept.

    Examples
    --------
    >>> file_name("wds/cifar10_<b>")
    'wds-cifar10_-b-'
    """
    return re.sub(r"[^\w.~@=-]", "-", text).lstrip(".") or "-"


def path_of(name: str) -> str:
    """Return a name whose parts are safe as names of files."""
    return "/".join(file_name(part) for part in name.split("/"))


# Event files for TensorBoard, which tensorboardX writes without TensorBoard.

EVENTS = "events.out.tfevents.0.mispair"
"""TensorBoard reads files whose name begins like this; the same run has the same name."""


def by_step(run: TrainingCurves) -> Iterator[tuple[int, list[tuple[str, float]]]]:
    """Yield all values of a run step by step, so that steps only go up."""
    of_curves = (
        [(step, curve.tag, value) for step, value in zip(curve.steps, curve.values, strict=True)]
        for curve in run.curves
    )
    points = heapq.merge(*of_curves, key=itemgetter(0, 1))
    for step, group in groupby(points, key=itemgetter(0)):
        yield step, [(tag, value) for _, tag, value in group]


def write_runs(runs: Sequence[TrainingCurves], folder: Path) -> None:
    """Write an event file for each run; a step counts as a second, so that the bytes repeat."""
    if not runs:  # tensorboardX imports torch, which takes seconds
        return
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary
    from tensorboardX.record_writer import RecordWriter

    for run in runs:
        path = folder / run.name / EVENTS
        path.parent.mkdir(parents=True)
        writer = RecordWriter(str(path))
        writer.write(Event(file_version="brain.Event:2").SerializeToString())
        for step, values in by_step(run):
            for tag, value in values:
                scalar = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
                event = Event(wall_time=step, step=step, summary=scalar)
                writer.write(event.SerializeToString())
        writer.close()
