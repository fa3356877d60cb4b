"""Export what was measured for other tools: CLIP_benchmark, and trackers of experiments."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)

Tracker = Literal["tensorboard", "wandb", "mlflow"]


class Settings(settings.Settings):
    trackers: list[Tracker] = Field(
        ["tensorboard"],
        description="Trackers that get the losses of trainings and the scores of arms, each in a "
        "folder of its name in reports: tensorboard (event files); wandb and mlflow, which "
        "must be installed separately.",
    )
    online: bool = Field(
        False,
        description="Let wandb send to its server, and mlflow to that of MLFLOW_TRACKING_URI, each "
        "time. Otherwise both write files here and use no network.",
    )
    points: int = Field(
        1000,
        ge=2,
        description="Most points of a loss curve; longer ones are means of neighbouring steps.",
    )


def run(settings: Settings, *, tables: list[Path], trained: list[Path], folder: Path) -> None:
    """Write ``clip_benchmark/`` and a folder for each tracker below the folder of the report.

    `trained` are files that trainings wrote: projections with the loss of every step, and
    ``training.json`` of towers.
    """
    import json

    from mispair.core.folders import replacing_folder
    from mispair.report import studies, study_modules
    from mispair.report.exports.trackers import WRITERS
    from mispair.report.tables import read_csvs

    measured = read_csvs(tables)
    with replacing_folder(folder / "clip_benchmark", durable=False) as written:
        for pages in study_modules.every_pages():
            for name, result in pages.results(measured).items():
                path = written / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(json.dumps(result, allow_nan=False) + "\n", encoding="utf-8")
    of_study = studies.by_study(trained)
    runs = [
        run
        for study in studies.NAMES
        for run in study_modules.pages(study).runs(measured, of_study[study], settings.points)
    ]
    for tracker in settings.trackers:
        home = folder / tracker
        with replacing_folder(home, durable=False) as written:
            WRITERS[tracker](runs, written, home, settings.online)
        log.info("%s: %d runs", home, len(runs))
