"""Make an evaluation set: generated scenes, or scans of handwritten digits, with their classes."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from mispair import settings


class Settings(settings.Settings):
    """Settings of the evaluation sets that mispair makes."""

    images: int = Field(
        1000, ge=10, description="Pictures in each set of scenes; handwritten-digits has 1,797."
    )
    image_size: int = Field(64, ge=16, le=1024, description="Side of the pictures, in pixels.")
    seed: int = Field(0, ge=0, description="Seed of the sets; never draws what a corpus draws.")


def run(settings: Settings, *, name: str, evaluation_set: Path) -> None:
    """Write one evaluation set in CLIP_benchmark's webdataset layout.

    Parameters
    ----------
    settings : Settings
        Number and size of the pictures.
    name : str
        Name of the set.
    evaluation_set : Path
        Folder to write; replaced as a whole.
    """
    from mispair import files
    from mispair.pairs.evaluation_sets import (
        EVALUATION_SETS,
        labelled_pictures,
        write_evaluation_set,
    )
    from mispair.pairs.folders import replacing_folder

    if name not in EVALUATION_SETS:
        known = ", ".join(EVALUATION_SETS)
        raise files.UserError(f"make_evaluation_set: there is no set {name!r}; there are {known}.")
    chosen = EVALUATION_SETS[name]
    pictures = labelled_pictures(
        name, images=settings.images, size=settings.image_size, seed=settings.seed
    )
    with replacing_folder(evaluation_set) as folder:
        write_evaluation_set(folder, chosen.classnames, chosen.templates, pictures)
