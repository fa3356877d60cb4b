"""All tables that the site prints of what was measured, by the page that they stand on."""

from __future__ import annotations

from pathlib import PurePath

from mispair.report.pages import claims_table, records
from mispair.report.pages.content import Content
from mispair.report.study_modules import every_pages
from mispair.report.study_modules import pages as pages_of
from mispair.report.table import Table


def printed(content: Content) -> dict[str, list[Table]]:
    """Return the tables of each page by its name, which is that of its file without ending.

    Those of the run itself (times, versions) are not among them: ``run.json`` has them.
    """
    tables, confidence = content.tables, content.confidence
    found = {
        study.key: pages_of(study.key).tables(tables, content.judged, confidence)
        for study in content.studies
    }
    found |= {PurePath(page.file).stem: [*page.printed] for page in content.others}
    found["index"] = claims_table.claims(content.judged)
    settings = [table for pages in every_pages() for table in pages.settings(tables)]
    found["run"] = [*filter(None, [records.fingerprints(tables)]), *settings]
    return found
