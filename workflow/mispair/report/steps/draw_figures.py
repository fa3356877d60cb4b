"""Draw the figures of a study: each as SVG, PDF, PNG, its numbers, and an interactive chart."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    font_size: int = Field(12, ge=8, le=24, description="Size of labels on the page, in pixels.")
    paper_font_size: int = Field(
        18, ge=8, le=32,
        description="Size of labels in SVG, PDF and PNG, in pixels: 18 are 5 points in a column.",
    )  # fmt: skip
    max_points: int = Field(
        10_000, ge=100, le=10_000, description="Rows that a figure may hold: browsers stay quick."
    )


def run(settings: Settings, *, study: str, tables: list[Path], figures: Path) -> None:
    """Write every figure of a study; one without data says what is missing."""
    import json

    from mispair.core import files
    from mispair.report import studies
    from mispair.report.figures import render
    from mispair.report.tables import read

    measured = read({path.stem: path for path in tables if path.suffix == ".csv"})
    for figure in studies.study(study).figures:
        drawn = render(
            figure,
            measured,
            settings.font_size,
            settings.paper_font_size,
            settings.max_points,
        )
        files.write_text(figures / f"{figure.name}.svg", drawn.svg + "\n")
        for form, content in (("pdf", drawn.pdf), ("png", drawn.png)):
            with files.replacing(figures / f"{figure.name}.{form}") as part:
                part.write_bytes(content)
        files.write_csv(figures / f"{figure.name}.csv", drawn.csv)
        spec = json.dumps(drawn.spec, ensure_ascii=False, sort_keys=True, allow_nan=False)
        files.write_text(figures / f"{figure.name}.vl.json", spec + "\n")
        metadata = drawn.spec["usermeta"]["mispair"]
        log.info("%s: %s", figure.name, metadata.get("sentence") or f"hole: {metadata['hole']}")
