"""Train small image and text towers from scratch with open_clip's own trainer."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from mispair import settings


class Settings(settings.Settings):
    """Settings of pre-training; the towers that come with mispair were made with the defaults."""

    definition: str = Field(
        "scenes-small", description="Model: a definition of mispair, or a path to a .json."
    )
    epochs: int = Field(12, ge=1, description="Passes over the corpus.")
    batch_size: int = Field(128, ge=2, description="Pairs per step.")
    lr: float = Field(2e-3, gt=0, description="Peak learning rate of AdamW.")
    warmup: int = Field(100, ge=0, description="Steps of linear warm-up before the cosine decay.")
    wd: float = Field(0.1, ge=0, description="Weight decay.")
    crop_scale: float = Field(
        0.9, gt=0, le=1, description="Least share of the area that a random crop keeps."
    )
    seed: int = Field(0, ge=0, description="Seed of the weights, crops and order of samples.")
    threads: int = Field(2, ge=1, description="Threads of the trainer.")
    workers: int = Field(1, ge=0, description="Processes that read and decode pictures.")


def run(settings: Settings, *, shards: list[Path], towers: Path) -> None:
    """Train, and write a folder that open_clip loads as ``local-dir:``.

    Parameters
    ----------
    settings : Settings
        Model and schedule.
    shards : list of Path
        Tar shards of image-text pairs.
    towers : Path
        Folder to write: configuration, weights, vocabulary and ``training.json``.
    """
    import tempfile

    import torch

    from mispair import files
    from mispair.pairs.folders import replacing_folder
    from mispair.towers import pretraining, recipe

    shards = sorted(shards)
    samples = pretraining.count_pairs(shards)
    total = settings.epochs * -(-samples // settings.batch_size)
    if settings.warmup > total:
        raise files.UserError(
            f"pretrain_towers.warmup: {settings.warmup} steps, but training has {total}."
        )
    torch.set_num_threads(settings.threads)
    definition = pretraining.read_definition(settings.definition)
    values = settings.model_dump(exclude={"definition", "threads"})
    with tempfile.TemporaryDirectory() as scratch, replacing_folder(towers) as folder:
        model, logs = Path(scratch) / "model", Path(scratch) / "logs"
        model.mkdir()
        pretraining.write_definition(model, definition, absolute=True)
        arguments = pretraining.trainer_arguments(
            model=f"local-dir:{model}",
            shards=[str(shard) for shard in shards],
            samples=samples,
            logs=str(logs),
            **values,
        )
        losses = pretraining.train(arguments, logs, seed=settings.seed)
        pretraining.write_definition(folder, definition, absolute=False)
        weights = pretraining.trained_weights(logs)
        pretraining.write_weights(folder / pretraining.WEIGHTS_NAME, weights)
        files.write_json(folder / "training.json", recipe.recipe(settings, shards, samples, losses))
