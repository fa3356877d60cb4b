"""Train image and text towers, from scratch or from others, with open_clip's own trainer."""

import logging
from pathlib import Path

from mispair.towers.pretraining.pretraining import Settings

log = logging.getLogger(__name__)


def run(settings: Settings, *, shards: list[Path], start: list[Path], towers: Path) -> None:
    """Train, and write a folder that open_clip loads as ``local-dir:``.

    A killed training resumes from its last finished epoch, whose state is in the folder
    ``RESULT.parts``; it is removed at the end.

    `start` are the files of the towers to start from, the configuration first; none to train from
    scratch. `towers` gets configuration, weights, vocabulary and ``training.json``.
    """
    import torch

    from mispair.core import files
    from mispair.core.devices import choose_device
    from mispair.core.files import replacing_folder
    from mispair.core.provenance import code_version, fingerprint
    from mispair.core.resume import Checkpoints, only_copy
    from mispair.pairs.shards.staging import staged
    from mispair.towers.loading import WEIGHTS_NAME
    from mispair.towers.pretraining import pretraining, trainer

    shards = sorted(shards)
    pretraining.refuse_too_few_shards(settings, len(shards))
    device = choose_device(settings.device)
    origin = pretraining.origin(settings.definition, start)
    pairs = pretraining.count_pairs(shards)
    pretraining.refuse_too_few_pairs(settings, pairs)

    job = [settings.model_dump_json(), device, origin.fingerprint, *pretraining.versions().values()]
    job += [*pretraining.shard_stamps(shards), *code_version("pretrain_towers")]
    parts = towers.with_name(f"{towers.name}.parts")
    with only_copy(parts):
        logs = parts / fingerprint(job)
        trainer.remove_other_jobs(parts, logs)
        model = logs / "model"
        origin.write(model)
        finished = trainer.finished_epochs(logs)
        if finished:
            log.info("going on after epoch %d of %d, from %s", finished, settings.epochs, parts)
        with staged(shards) as local:
            arguments = pretraining.trainer_arguments(
                settings, device, model=f"local-dir:{model.resolve()}", logs=str(logs),
                samples=sum(pairs), shards=[str(shard) for shard in local],
            )  # fmt: skip
            torch.set_num_threads(settings.threads)
            trainer.train(arguments, seed=settings.seed, epochs=settings.epochs)
        with replacing_folder(towers) as folder:
            origin.write(folder, towers)
            weights = pretraining.trained_weights(trainer.latest_checkpoint(logs))
            pretraining.write_weights(folder / WEIGHTS_NAME, weights, origin.dtype)
            losses = pretraining.read_losses((logs / trainer.NAME / "out.log").read_text("utf-8"))
            record = pretraining.recipe(settings, device, origin, shards, sum(pairs), losses)
            files.write_json(folder / "training.json", record)
        Checkpoints(parts, "").remove()
