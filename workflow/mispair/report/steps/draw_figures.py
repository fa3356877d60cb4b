"""Draw the figures of a study: each as SVG, PDF, PNG, its numbers, and an interactive chart.

A figure without data has no picture: its chart names what is missing. A small figure is an SVG and
its chart.
"""

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    paper_font_size: int = Field(
        18, ge=8, le=32,
        description="Size of labels in SVG, PDF and PNG, in pixels: 18 are 5 points in a column.",
    )  # fmt: skip


def run(settings: Settings, *, study: str, tables: list[Path], figures: Path) -> None:
    """Write every figure of a study."""
    import json

    from mispair.core import files
    from mispair.report import studies
    from mispair.report.figures import as_svg, compose, printed
    from mispair.report.tables import read_csvs

    measured = read_csvs(tables)
    small = studies.study(study).small
    for figure in studies.drawn(study):
        spec, data = compose(figure, measured)
        metadata = spec["usermeta"]["mispair"]
        pictures: dict[str, bytes] = {}
        if "hole" not in metadata and figure in small:
            pictures = {"svg": f"{as_svg(spec)}\n".encode()}
        elif "hole" not in metadata:
            pictures = printed(spec, settings.paper_font_size)
            files.write_csv(figures / f"{figure.name}.csv", data)
        for form, content in pictures.items():
            with files.replacing(figures / f"{figure.name}.{form}") as part:
                part.write_bytes(content)
        text = json.dumps(spec, ensure_ascii=False, sort_keys=True, allow_nan=False)
        files.write_text(figures / f"{figure.name}.vl.json", text + "\n")
        result = f"hole: {metadata['hole']}" if "hole" in metadata else "drawn"
        log.info("%s: %s", figure.name, result)
