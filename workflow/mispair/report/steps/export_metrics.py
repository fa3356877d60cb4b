"""Export losses of trainings and scores of arms for TensorBoard."""

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    points: int = Field(
        1000,
        ge=2,
        description="Most points of a loss curve in TensorBoard's event files; longer ones are "
        "means of neighbouring steps.",
    )


def run(settings: Settings, *, tables: list[Path], trained: list[Path], folder: Path) -> None:
    """Write ``tensorboard/`` below the folder of the report.

    `trained` are files that trainings wrote: projections with the loss of every step, and
    ``training.json`` of towers.
    """
    from mispair.core.files import replacing_folder
    from mispair.report import studies
    from mispair.report.curves import write_runs
    from mispair.report.pages import study_pages
    from mispair.report.tables import read_csvs

    measured = read_csvs(tables)
    of_study = studies.by_study(trained)
    runs = [
        run
        for study in studies.NAMES
        for run in study_pages.pages(study).runs(measured, of_study[study], settings.points)
    ]
    with replacing_folder(folder / "tensorboard", durable=False) as written:
        write_runs(runs, written)
    log.info("%s: %d runs", folder / "tensorboard", len(runs))
