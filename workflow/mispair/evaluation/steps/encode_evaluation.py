"""Run the frozen image tower once over a split of an evaluation set."""

from pathlib import Path

from mispair.core import settings
from mispair.towers.encoding_record import EncodingSettings


class Settings(EncodingSettings):
    """Settings of `encode_evaluation`."""

    workers: int = settings.sweep(
        0,
        ge=0,
        description="Threads of a job that decode and resize for the tower; 0 suits CPUs, where "
        "other jobs fill the cores. Changes no result.",
    )


def run(
    settings: Settings,
    *,
    evaluation_set: list[Path],
    name: str | None = None,
    split: str,
    towers: list[Path],
    workers: int,
    evaluation_features: Path,
) -> None:
    """Write pre-projection features of images, and their labels.

    If captions are to be chosen, numbers of pictures replace labels: equal ones are one picture.
    """
    from mispair.core import files
    from mispair.core.devices import usable_cores
    from mispair.core.progress import Progress
    from mispair.evaluation.set_samples import ImageFacts, open_images
    from mispair.towers.encoding import encoding_job

    opened = open_images(evaluation_set, name)
    facts = ImageFacts(opened)
    job = encoding_job("encode_evaluation", settings, towers, evaluation_features)
    with job as (encoder, times, parts):
        with Progress(f"encoding {opened.name}", opened.count(), "images") as progress:
            features = encoder.encode_images(
                facts.pictures(), times, parts, progress.reach, min(workers, usable_cores())
            ).numpy()
        if not facts.labels:
            raise files.UserError(f"{opened.directory}: holds no image for {split}.")
        times.finish(precision=settings.precision)
        files.write_tensors(
            evaluation_features,
            {"image_features": features, **facts.targets()},
            {
                "name": opened.name,
                "kind": opened.kind,
                "split": split,
                "images_fingerprint": facts.fingerprint(),
                "towers": encoder.towers.fingerprint,
                "precision": settings.precision,
            },
        )
