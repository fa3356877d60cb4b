"""What MkDocs does beyond Markdown: files of the repository, and every page of measurements."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

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

    return LINK.sub(link, markdown)
