"""What MkDocs does beyond Markdown: files of the repository, all measurements, the last report."""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

REPORT = "reports"
EXAMPLE_LINK = '<a href="example/index.html">The report of a run</a> is part of this site.'
MOST_BYTES = 6_000_000
SHOWN = {".html", ".js", ".png"}
TO_FILE = re.compile(r'href="([^":#]+)(?:#[^"]*)?"')
"""A link of a page of the report to a file of the run."""

LINK = re.compile(r"(?<=\]\()\.\./[^)#\s]+")
"""The target of a link or picture that may be outside the folder of pages."""


def on_config(config: Any) -> Any:
    """Add every page of measurements to the navigation."""
    folder = Path(config.docs_dir) / "measurements"
    (pages,) = (part["Measurements"] for part in config.nav if "Measurements" in part)
    names = [f"measurements/{path.name}" for path in sorted(folder.glob("*.md"))]
    pages.extend(name for name in names if name not in pages)
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Take files outside the folder of pages into the site."""
    folder = Path(config.docs_dir)

    def link(match: re.Match[str]) -> str:
        path = (folder / page.file.src_uri).parent.joinpath(match[0]).resolve()
        if path.is_relative_to(folder) or not path.is_file():
            return match[0]
        name = f"files/{path.relative_to(folder.parent).as_posix()}"
        if files.get_file_from_path(name) is None:
            files.append(File.generated(config, name, abs_src_path=str(path)))
        return "../" * page.file.src_uri.count("/") + name

    example = EXAMPLE_LINK if (folder.parent / REPORT / "index.html").is_file() else ""
    return LINK.sub(link, markdown.replace("<!-- example -->", example))


def on_post_build(config: Any) -> None:
    """Take the pages of the last run's report into the site, as an example without its tables.

    Raises
    ------
    PluginError
        If they are larger than a site should be.
    """
    report, example = Path(config.docs_dir).parent / REPORT, Path(config.site_dir) / "example"
    taken = [path for path in sorted(report.rglob("*")) if path.suffix in SHOWN]
    if not (report / "index.html").is_file():
        return
    if (size := sum(path.stat().st_size for path in taken)) > MOST_BYTES:
        raise PluginError(f"{report}: the pages have {size / 1e6:.1f} MB, an example at most 6 MB.")
    for path in taken:
        target = example / path.relative_to(report)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    for page in example.rglob("*.html"):
        page.write_text(TO_FILE.sub(partial(_without_missing, page.parent), page.read_text()))


def _without_missing(folder: Path, link: re.Match[str]) -> str:
    """Return a link of the example, or a note if it leads to a file that is not taken."""
    here = (folder / unquote(link[1])).exists()
    return link[0] if here else 'title="a run writes this file; the example is without"'
