"""Gather the results of all studies into tidy tables."""

import json
import logging
from pathlib import Path

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    """Gathering has no settings: the columns are those that each study declares."""


def run(settings: Settings, *, results: list[Path], models: str, tables: Path) -> None:
    """Write each tidy table as CSV, and all of them as one Parquet file.

    ``metrics.csv`` leaves out rows that are parts of a measurement, such as single neurons.

    Each of `results` belongs to a study (`mispair.report.studies.ReportedStudy.results`). The
    tables of a study that was not run are empty. `models` are the compared models as in the
    configuration, by name, as JSON; `tables` is the folder to write to.
    """
    from collections import defaultdict

    from mispair.core import files
    from mispair.report import studies
    from mispair.report.pages import study_pages
    from mispair.report.tables import Row, Tables, everything, summary, tidy

    of_study, compared = studies.by_study(results), json.loads(models)
    rows: defaultdict[str, list[Row]] = defaultdict(list)
    for name in studies.NAMES:
        by_table = study_pages.rows(name).rows(of_study[name], compared)
        for table, more in by_table.items():
            rows[table] += more
    frames = {name: tidy(name, rows[name]) for name in studies.tables()}
    frames["provenance"] = frames["provenance"].drop_duplicates(ignore_index=True)
    for table, frame in frames.items():
        files.write_csv(tables / f"{table}.csv", frame)
        log.info("%s.csv: %d rows", table, len(frame))
    union = everything(Tables(frames))
    files.write_parquet(tables / "metrics.parquet", union)
    files.write_arrow_csv(tables / "metrics.csv", summary(union))
