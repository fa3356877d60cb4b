"""Event files for TensorBoard, which tensorboardX writes without TensorBoard."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from mispair.report.curves import TrainingCurves

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
