"""All tables that the site prints of what was measured, by the page that they stand on."""

from __future__ import annotations

from pathlib import PurePath

from mispair.evaluation.report import model_tables, set_tables
from mispair.report import studies
from mispair.report.pages import claims_table, records
from mispair.report.pages.content import Content
from mispair.report.table import Table
from mispair.report.tables import Tables


def printed(tables: Tables, confidence: float) -> dict[str, list[Table]]:
    """Return the tables of each page by its name, which is that of its file without ending.

    Those of the run itself (times, versions) are not among them: ``run.json`` has them.
    """
    content = Content(tables, {}, None, None, {}, None, title="", confidence=confidence)
    found = {
        study.key: studies.PARTS[study.key].tables(tables, content.judged, confidence)
        for study in content.studies
    }
    for name, file in content.set_files.items():
        found[PurePath(file).stem] = set_tables.of_set(tables, content.scores, name)
    for name, file in content.model_files.items():
        own = model_tables.of_main(tables) if name == content.main_model else []
        compared = model_tables.of_compared(tables, content.scores, name)
        found[PurePath(file).stem] = [*own, *compared]
    found["index"] = claims_table.claims(content.judged)
    found["run"] = [*filter(None, (records.fingerprints(tables), records.settings_of(tables)))]
    return found
