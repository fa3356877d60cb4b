"""Write the report: a small site that works offline, its tables for LaTeX, and all verdicts."""

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    title: str = Field(
        "",
        description="Heading of the report; empty for one by what was measured: with your own "
        "pairs their name and the share of wrong captions.",
    )
    confidence: float = Field(
        0.95, gt=0.5, lt=1, description="Confidence level of intervals and tests, a probability."
    )


def run(
    settings: Settings,
    *,
    tables: list[Path],
    figures: list[Path],
    pieces: list[Path],
    benchmarks: Path,
    record: list[Path],
    page: Path,
    pages: Path,
    latex: Path,
    claims: Path,
    failures: Path | None = None,
) -> None:
    """Write the site from tables, figures, benchmarks and the record of the run.

    `pieces` are files of HTML with pictures; `record` has at most one file. `page` is the landing
    page, next to the folder of all `pages`, from which files of an earlier report are removed.
    `latex` is a folder with a file for each table of the site, and `claims` a table of all verdicts
    (`mispair.report.pages.claims_table.COLUMNS`). With `failures` the report is one of an
    incomplete run, and lists them.
    """
    from mispair.core import files
    from mispair.core.cost import texts_of
    from mispair.core.files import replacing_folder
    from mispair.core.run_record import own_corpus
    from mispair.report.latex import documents
    from mispair.report.markup import piece_of
    from mispair.report.pages.claims_table import frame
    from mispair.report.pages.content import Content
    from mispair.report.pages.picture import pictures_in
    from mispair.report.pages.site import build, printed
    from mispair.report.tables import read_csvs

    pictures = pictures_in(figures)
    run = files.read_json(record[0]) if record else {}
    content = Content(
        read_csvs(tables), pictures,
        {path.stem: piece_of(path.read_text("utf-8")) for path in pieces},
        texts_of(benchmarks), run.get("record"),
        title=settings.title, confidence=settings.confidence,
        corpus=own_corpus(run),
        failed=files.read_json(failures) if failures else None,
    )  # fmt: skip
    site = build(content, pages.name)
    for path in sorted(pages.rglob("*.*")):
        if path.is_file() and path.relative_to(pages).as_posix() not in site.files:
            path.unlink()
    for name, text in site.files.items():
        files.write_text(pages / name, text)
    with replacing_folder(latex, durable=False) as written:
        for name, text in documents(printed(content)).items():
            (written / f"{name}.tex").write_text(text, encoding="utf-8", newline="\n")
    files.write_csv(claims, frame(content.judged, content.confidence))
    files.write_text(page, site.front)
    size = sum(len(text.encode()) for text in [site.front, *site.files.values()])
    log.info(
        "%s: %d pages, %.2f MB, %d figures", page, len(site.files) - 1, size / 1e6, len(pictures)
    )
