"""Train image and text towers, from scratch or from others, with open_clip's own trainer."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mispair import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    """Settings of pre-training; the towers that come with mispair were made with the defaults."""

    definition: Annotated[str, settings.Located(r"[^/]*(?<!\.json)")] = Field(
        "scenes-small",
        description="Model: a definition of mispair, an architecture of open_clip such as "
        "ViT-B-32, or a path to a .json. Not used with `start`.",
    )
    start: Annotated[str | None, settings.Located("[^/]+")] = settings.sweep(
        None,
        description="Towers of which all weights are trained on: `shipped`, the folder of a local "
        "open_clip model, or the name of a model under `models`; null to train from scratch.",
    )
    epochs: int = Field(12, ge=1, description="Passes over the corpus, or over samples drawn.")
    train_num_samples: int | None = Field(
        None,
        ge=1,
        description="Pairs of an epoch, of shards drawn with replacement, for corpora of which a "
        "pass takes hours: after each epoch a training that is killed can go on. null for all "
        "pairs of the corpus.",
    )
    batch_size: int = Field(128, ge=2, description="Pairs per step and process.")
    lr: float = Field(2e-3, ge=0, description="Peak learning rate of AdamW.")
    warmup: int = Field(100, ge=0, description="Steps of linear warm-up before the cosine decay.")
    wd: float = Field(0.1, ge=0, description="Weight decay.")
    crop_scale: float = Field(
        0.9, gt=0, le=1, description="Least share of the area that a random crop keeps."
    )
    grad_checkpointing: bool = Field(
        False, description="Compute activations twice rather than keep them: for larger batches."
    )
    precision: Literal["fp32", "amp", "amp_bf16"] = Field(
        "fp32", description="Number format of the products, by open_clip's names."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "cpu", description="Where towers are trained; auto takes a GPU when there is one."
    )
    processes: int = Field(
        1, ge=1, description="Processes on each node, one for each GPU, started by torchrun."
    )
    nodes: int = Field(1, ge=1, description="Nodes of a SLURM job; more than one run under srun.")
    seed: int = Field(0, ge=0, description="Seed of the weights, crops and order of samples.")
    threads: int = Field(2, ge=1, description="Threads of each process.")
    workers: int = Field(
        1, ge=0, description="Processes that read and decode pictures for each process."
    )


def run(settings: Settings, *, shards: list[Path], start: list[Path], towers: Path) -> None:
    """Train, and write a folder that open_clip loads as ``local-dir:``.

    A training that is killed goes on from its last finished epoch, of which the state lies in the
    folder beside the result, called as the result with ``.parts``; it is removed at the end.

    Parameters
    ----------
    settings : Settings
        Model, schedule and processes.
    shards : list of Path
        Tar shards of image-text pairs.
    start : list of Path
        Files of the towers to start from, the configuration first; none to train from scratch.
    towers : Path
        Folder to write: configuration, weights, vocabulary and ``training.json``.
    """
    import shutil
    from contextlib import nullcontext

    from mispair import files, gpus
    from mispair.checkpoints import Checkpoints, only_copy
    from mispair.devices import choose_device
    from mispair.pairs.folders import replacing_folder
    from mispair.pairs.staging import staged
    from mispair.provenance import code_version, fingerprint
    from mispair.towers import (
        launching,
        pretraining,
        recipe,
        trainer,
        training_origin,
        training_size,
    )

    shards = sorted(shards)
    training_size.refuse_too_few_shards(settings, len(shards))
    launching.refuse_other_nodes(settings.nodes)
    if settings.device != "cpu":
        gpus.reserve(settings.processes)
    device = choose_device(settings.device)
    launching.refuse_too_few_gpus(device, settings.processes)
    origin = training_origin.origin(settings.definition, start)
    pairs = None if settings.train_num_samples else pretraining.count_pairs(shards)
    training_size.refuse_too_few_pairs(settings, pairs or [])
    samples = settings.train_num_samples or sum(pairs or [])

    job = [settings.model_dump_json(), device, origin.fingerprint, *recipe.versions().values()]
    job += [*pretraining.shard_stamps(shards), *code_version("pretrain_towers")]
    parts = towers.with_name(f"{towers.name}.parts")
    with only_copy(parts):
        logs = parts / fingerprint(job)
        for other in parts.glob("*"):
            if other.is_dir() and other != logs:
                log.warning("%s is of other settings, code or shards; it is removed.", other)
                shutil.rmtree(other)
        model = logs / "model"
        origin.write(model)
        finished = trainer.finished_epochs(logs, settings.processes * settings.nodes)
        if finished:
            log.info("going on after epoch %d of %d, from %s", finished, settings.epochs, parts)
        # Other nodes would not see copies on the disk of this one.
        with staged(shards) if settings.nodes == 1 else nullcontext(shards) as local:
            arguments = pretraining.trainer_arguments(
                settings, device, model=f"local-dir:{model.resolve()}", logs=str(logs),
                samples=samples, shards=[str(shard) for shard in local],
            )  # fmt: skip
            launching.train(settings, arguments, logs)
        with replacing_folder(towers) as folder:
            origin.write(folder, towers)
            weights = pretraining.trained_weights(trainer.latest_checkpoint(logs))
            pretraining.write_weights(folder / pretraining.WEIGHTS_NAME, weights, origin.dtype)
            losses = pretraining.read_losses((logs / trainer.NAME / "out.log").read_text("utf-8"))
            about = recipe.recipe(settings, device, origin, shards, samples, losses)
            files.write_json(folder / "training.json", about)
        Checkpoints(parts, "").remove()
