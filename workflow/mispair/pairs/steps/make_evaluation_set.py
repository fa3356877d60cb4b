"""Make an evaluation set: generated scenes, or scans of handwritten digits, with their texts."""

from pathlib import Path

from pydantic import Field

from mispair.core import settings


class Settings(settings.Settings):
    images: int = Field(
        1000,
        ge=10,
        description="Test pictures in each set of scenes with classes; handwritten-digits has "
        "1,797.",
    )
    questions: int = Field(
        1200,
        ge=12,
        description="Pictures of scenes-compositional, each with a true and a false caption.",
    )
    train_images: int = Field(
        1000,
        ge=10,
        description="Further pictures of scenes-shape and scenes-digit, for training a linear "
        "probe; the other sets are for testing only.",
    )
    retrieval_images: int = Field(
        500, ge=10, le=5000, description="Pictures of scenes-retrieval, with five captions each."
    )
    image_size: int = Field(64, ge=16, le=1024, description="Side of the pictures, in pixels.")
    seed: int = Field(0, ge=0, description="Seed of the sets; no corpus has the same draws.")


def run(settings: Settings, *, name: str, evaluation_set: Path) -> None:
    """Write one evaluation set, a folder in CLIP_benchmark's layout, replaced as a whole."""
    from mispair.core import files
    from mispair.core.files import replacing_folder
    from mispair.pairs.scenes.evaluation_sets import (
        EVALUATION_SETS,
        captioned_pictures,
        labelled_pictures,
        questions,
        write_descriptions,
        write_split,
    )

    if name not in EVALUATION_SETS:
        names = ", ".join(EVALUATION_SETS)
        raise files.UserError(f"make_evaluation_set: there is no set {name!r}; there are {names}.")
    chosen = EVALUATION_SETS[name]
    size, seed = settings.image_size, settings.seed
    numbers = {"test": settings.images, "train": settings.train_images}
    with replacing_folder(evaluation_set) as folder:
        write_descriptions(folder, chosen)
        if chosen.kind == "retrieval":
            pictures = captioned_pictures(
                name, images=settings.retrieval_images, size=size, seed=seed
            )
            write_split(folder / "test", pictures)
            return
        if chosen.kind == "image_caption_selection":
            drawn_questions = questions(name, images=settings.questions, size=size, seed=seed)
            write_split(folder / "test", drawn_questions)
            return
        for split in chosen.splits:
            labelled = labelled_pictures(
                name, images=numbers[split], size=size, seed=seed, split=split
            )
            write_split(folder / split, labelled)
