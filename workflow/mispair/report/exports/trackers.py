"""Runs for trackers of experiments: TensorBoard, W&B and MLflow.

Each is imported only when it is used. W&B and MLflow write files here and use no network, unless
``export_metrics.online`` is set.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mispair.core.files import UserError

if TYPE_CHECKING:
    from mispair.report.exports.runs import Run

PROJECT = "mispair"
"""What W&B calls a project, and MLflow an experiment."""

EVENTS = "events.out.tfevents.0.mispair"
"""TensorBoard reads files whose name begins like this; the same run has the same name."""

DATABASE = "mlflow.db"

BATCH = 1000
"""Metrics that MLflow takes at a time."""


def by_step(run: Run) -> Iterator[tuple[int, list[tuple[str, float]]]]:
    """Yield all values of a run step by step, so that steps only go up."""
    of_curves = (
        [(step, curve.tag, value) for step, value in zip(curve.steps, curve.values, strict=True)]
        for curve in run.curves
    )
    points = heapq.merge(*of_curves, key=itemgetter(0, 1))
    for step, group in groupby(points, key=itemgetter(0)):
        yield step, [(tag, value) for _, tag, value in group]


def tensorboard(runs: Sequence[Run], folder: Path, home: Path, online: bool) -> None:
    """Write an event file for each run; a step counts as a second, so that the bytes repeat."""
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


def wandb(runs: Sequence[Run], folder: Path, home: Path, online: bool) -> None:
    """Give each run to W&B; offline, ``wandb sync`` of its folders sends them later."""
    module = _imported("wandb")
    for run in runs:
        opened = module.init(
            project=PROJECT, name=run.name, group=run.name.rpartition("/")[0],
            config=dict(run.about), dir=str(folder), mode="online" if online else "offline",
            reinit=True,
        )  # fmt: skip
        for step, values in by_step(run):
            opened.log(dict(values), step=step)
        opened.finish()


def mlflow(runs: Sequence[Run], folder: Path, home: Path, online: bool) -> None:
    """Give each run to MLflow; offline they go to a database in a file.

    ``mlflow ui --backend-store-uri sqlite:///reports/mlflow/mlflow.db`` shows them.
    """
    module = _imported("mlflow")
    uri = f"sqlite:///{folder.resolve() / DATABASE}"
    if online:
        uri = os.environ.get("MLFLOW_TRACKING_URI", "")
        if not uri:
            raise UserError(
                "export_metrics.online: the variable MLFLOW_TRACKING_URI, which names MLflow's "
                "server, is not set. Set it, or set online to false."
            )
    client = module.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(PROJECT)
    # MLflow looks up artifacts in the final folder, not in the temporary one.
    artifacts = None if online else (home.resolve() / "artifacts").as_uri()
    number = (
        experiment.experiment_id if experiment else client.create_experiment(PROJECT, artifacts)
    )
    for run in runs:
        opened = client.create_run(number, start_time=0, run_name=run.name).info.run_id
        params = [module.entities.Param(key, str(value)) for key, value in run.about.items()]
        metrics = [
            module.entities.Metric(tag, value, step, step)
            for step, values in by_step(run)
            for tag, value in values
        ]
        client.log_batch(opened, params=params)
        for start in range(0, len(metrics), BATCH):
            client.log_batch(opened, metrics=metrics[start : start + BATCH])
        client.set_terminated(opened, end_time=0)


WRITERS: dict[str, Callable[[Sequence[Run], Path, Path, bool], None]] = {
    "tensorboard": tensorboard,
    "wandb": wandb,
    "mlflow": mlflow,
}
"""Each is given runs, an empty folder to write to, the folder's later place, and whether to send.

The folder takes its place once it is whole.
"""


def _imported(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(
            f"export_metrics.trackers: {name} is not installed ({error}). Install it "
            f"(.venv/bin/python -m pip install {name}), or take it out of the list."
        ) from error
