"""Tables of the studies, the claims and the run for exports, by the page that prints them."""

from __future__ import annotations

from mispair.report.pages import claims_table, records
from mispair.report.pages.content import Content
from mispair.report.study_modules import every_pages
from mispair.report.table import Table


def printed(content: Content) -> dict[str, list[Table]]:
    """Return the tables of each page by its name, which is that of its file without ending.

    Those of the run itself (times, versions) are not among them: ``run.json`` has them. Nor are
    those of the page of numbers: ``numbers.csv`` has them.
    """
    settings = [table for pages in every_pages() for table in pages.settings(content.tables)]
    return {
        **content.tables_of_studies,
        "claims": claims_table.claims(content.judged),
        "run": [*filter(None, [records.fingerprints(content.tables)]), *settings],
    }
