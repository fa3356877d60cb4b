"""All tables that the site prints of what was measured, by the page that they stand on."""

from __future__ import annotations

from pathlib import PurePath

from mispair.report.pages import claims_table, records
from mispair.report.pages.content import Content
from mispair.report.study_modules import every_pages
from mispair.report.table import Table


def printed(content: Content) -> dict[str, list[Table]]:
    """Return the tables of each page by its name, which is that of its file without ending.

    Those of the run itself (times, versions) are not among them: ``run.json`` has them.
    """
    settings = [table for pages in every_pages() for table in pages.settings(content.tables)]
    return {
        **content.tables_of_studies,
        **{PurePath(page.file).stem: [*page.printed] for page in content.others},
        "index": claims_table.claims(content.judged),
        "run": [*filter(None, [records.fingerprints(content.tables)]), *settings],
    }
