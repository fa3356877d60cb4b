"""Pictures of README and the documentation: some figures of the last run, made small.

Run as ``python bench/pictures.py FIGURES PICTURES``, with the folders of both.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

from mispair.core import files
from mispair.report.figures import few_colours

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
        with Image.open(source) as drawn:
            size = (WIDTH, round(drawn.height * WIDTH / drawn.width))
            small = drawn.convert("RGB").resize(size, Image.Resampling.LANCZOS)
        with files.replacing(pictures / f"{name}.png") as part:
            few_colours(small).save(part, "PNG", optimize=True)
    return missing


if __name__ == "__main__":
    try:
        not_drawn = make_pictures(Path(sys.argv[1]), Path(sys.argv[2]))
    except files.UserError as error:
        sys.exit(f"error: {error}")
    for name in not_drawn:
        print(f"{name}.png is as it was: {PICTURES[name]} was not drawn in this run")
