"""Export what was measured for other tools: LaTeX, CLIP_benchmark, and trackers of experiments."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from mispair.core import settings

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger(__name__)

Tracker = Literal["tensorboard", "wandb", "mlflow"]


class Settings(settings.Settings):
    trackers: list[Tracker] = Field(
        ["tensorboard"],
        description="Trackers that get the losses of trainings and the scores of arms, each in a "
        "folder of its name in reports: tensorboard (event files); wandb and mlflow, which are to "
        "be installed beside mispair.",
    )
    online: bool = Field(
        False,
        description="Let wandb send to its server, and mlflow to that of MLFLOW_TRACKING_URI, each "
        "time anew. Otherwise both write files here and use no network.",
    )
    points: int = Field(
        1000,
        ge=2,
        description="Most points of the loss of a training: above it, means of neighbouring steps.",
    )


def run(
    settings: Settings,
    *,
    tables: list[Path],
    projections: list[Path],
    training: list[Path],
    confidence: float,
    folder: Path,
) -> None:
    """Write ``latex/``, ``clip_benchmark/`` and a folder for each tracker.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    tables : list of Path
        The tidy tables of the report.
    projections : list of Path
        Those that were fine-tuned, with the loss of every step.
    training : list of Path
        The ``training.json`` of towers that were trained in this run.
    confidence : float
        Of the intervals and tests in the report's tables.
    folder : Path
        That of the report.
    """
    from mispair.core import files
    from mispair.core.folders import replacing_folder
    from mispair.evaluation.report import clip_benchmark
    from mispair.report.exports import curves, latex
    from mispair.report.exports.printed import printed
    from mispair.report.exports.trackers import WRITERS
    from mispair.report.tables import read

    measured = read({path.stem: path for path in tables if path.suffix == ".csv"})
    with replacing_folder(folder / "latex", durable=False) as written:
        for name, text in latex.documents(printed(measured, confidence)).items():
            (written / f"{name}.tex").write_text(text, encoding="utf-8", newline="\n")
    with replacing_folder(folder / "clip_benchmark", durable=False) as written:
        for name, result in clip_benchmark.results(measured).items():
            _write_result(written / name, result)
    runs = [
        *curves.fine_tuning(map(_losses, projections), measured, settings.points),
        *curves.simulation(measured),
        *(curves.pretraining(path.parent.name, files.read_json(path)) for path in training),
    ]
    for tracker in settings.trackers:
        home = folder / tracker
        with replacing_folder(home, durable=False) as written:
            WRITERS[tracker](runs, written, home, settings.online)
        log.info("%s: %d runs", home, len(runs))


def _losses(path: Path) -> tuple[dict[str, Any], np.ndarray]:
    import json

    from mispair.core.files import read_tensors

    tensors, about = read_tensors(path, only=["loss"])
    arm = {"start": about["start"], "scheme": about["scheme"], "rate": float(about["rate"])}
    return {**arm, "seeds": json.loads(about["seeds"])}, tensors["loss"]


def _write_result(path: Path, result: dict[str, Any]) -> None:
    import json

    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, allow_nan=False) + "\n", encoding="utf-8")
