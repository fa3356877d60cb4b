"""Pictures of README and the documentation: some figures of the last run, and its first page.

Run as ``python bench/pictures.py FIGURES PICTURES``, with the folders of both. Needs Chromium.
"""

import sys
import tempfile
from pathlib import Path

from PIL import Image

from mispair.core import files
from mispair.report.figures import few_colours
from tests.browser import window

PICTURES = {
    "purity": "purity_by_shuffling",
    "scale": "overlap_by_scale",
    "simulation": "simulation_figure1_as_run",
    "accuracy": "accuracy_by_shuffling",
    "pruning": "pruning",
    "cosines": "simulation_cosines",
}
"""The figure behind each picture."""

WIDTH = 720
"""Pixels across: at most 100 kB a picture."""


def make_pictures(figures: Path, pictures: Path) -> list[str]:
    """Write a small PNG of each figure that was drawn; return the names of those that were not.

    What was not drawn keeps the picture that it had.

    Raises
    ------
    UserError
        If there are no figures.
    """
    drawn_files = {path.name: path for path in sorted(figures.glob("*/*.*"))}
    if not any(f"{figure}.png" in drawn_files for figure in PICTURES.values()):
        raise files.UserError(f"{figures}: there are no figures. Run `make demo` first.")
    missing = []
    for name, figure in PICTURES.items():
        source, chart = (drawn_files.get(f"{figure}.{form}") for form in ("png", "vl.json"))
        if (
            source is None
            or chart is None
            or "hole" in files.read_json(chart)["usermeta"]["mispair"]
        ):
            missing.append(name)
            continue
        _make_small(source, pictures / f"{name}.png")
    return missing


def photograph(page: Path, picture: Path) -> None:
    """Write a small PNG of what a reader sees first of a report: down to its third answer."""
    with tempfile.TemporaryDirectory() as folder, window(1080, 1000) as opened:
        taken = Path(folder) / "page.png"
        shown = opened.open(page.resolve())
        end = shown.locator(".card").nth(2).bounding_box()["y"]
        shown.screenshot(path=taken, clip={"x": 0, "y": 0, "width": 1080, "height": end})
        _make_small(taken, picture)


def _make_small(source: Path, picture: Path) -> None:
    with Image.open(source) as drawn:
        size = (WIDTH, round(drawn.height * WIDTH / drawn.width))
        small = drawn.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    with files.replacing(picture) as part:
        few_colours(small).save(part, "PNG", optimize=True)


if __name__ == "__main__":
    try:
        not_drawn = make_pictures(Path(sys.argv[1]), Path(sys.argv[2]))
        photograph(Path(sys.argv[1]).parent / "index.html", Path(sys.argv[2]) / "report.png")
    except files.UserError as error:
        sys.exit(f"error: {error}")
    for name in not_drawn:
        print(f"{name}.png is as it was: {PICTURES[name]} was not drawn in this run")
