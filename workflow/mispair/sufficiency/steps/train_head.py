"""Train a head for conditional denoising or for the next word, on a frozen feature or jointly."""

from pathlib import Path

from mispair.sufficiency.settings import ARMS, OF_ENCODERS, TASKS
from mispair.sufficiency.settings import HeadSettings as Settings


def run(
    settings: Settings, *, trees: Path, flip: float, task: str, arm: str, seed: int,
    encoders: list[Path], checkpoint: Path, head: Path,
) -> None:  # fmt: skip
    """Write the weights of one head.

    `flip` is the flip probability of both trees. `seed` draws the weights and the pairs. It is also
    that of the standard `encoders`, which only some arms read. A job that is killed continues from
    its state in the folder `checkpoint`.
    """
    from mispair.core.files import UserError
    from mispair.core.provenance import file_digest
    from mispair.core.training import TrainingPlan, training_job
    from mispair.sufficiency import heads
    from mispair.sufficiency.encoders import read_towers, weights_of, write_weights
    from mispair.sufficiency.settings import refuse_too_large
    from mispair.sufficiency.trees import prepared, read_trees, trees_at

    if task not in TASKS or arm not in ARMS:
        raise UserError(
            f"--task, --arm: there is no {task} of {arm}; tasks are {', '.join(TASKS)}, arms "
            f"{', '.join(ARMS)}."
        )
    if (arm in OF_ENCODERS) != bool(encoders):
        raise UserError(f"--encoders: {arm} takes {'one file' if not encoders else 'none'}.")
    device = prepared(settings.device)
    skeletons, metadata = read_trees(trees)
    size = skeletons.size
    width, blocks = settings.width_of(task), settings.blocks_of(arm)
    tokens = 2 * size.leaves if arm == "joint" else size.leaves + 1
    refuse_too_large(
        size.bytes_of_training(settings.batch_size, width, blocks, tokens)
        + size.bytes_of_samples(settings.batch_size)
        + size.bytes_of_messages(settings.batch_size, 4),
        device,
        f"train_head: a batch of {settings.batch_size:,} pairs of {size.leaves:,} leaves each",
        "lower train_head.batch_size, width or blocks, or draw_trees.depth or branching",
    )
    towers = None
    if encoders:
        towers, _ = read_towers(encoders[0], device, trained=arm != "untrained")
    label = f"{task}, {arm}, p = {flip:g}, seed {seed}"
    job = [settings.model_dump_json(), metadata["fingerprint"], repr(flip), label, device]
    with training_job("train_head", label, [*job, *map(file_digest, encoders)],
                      checkpoint) as train:  # fmt: skip
        model = heads.start_head(task, arm, size, width, blocks, seed).to(device)
        loss = heads.loss_of_step(
            task, arm, model, trees_at(skeletons, flip, device), towers,
            batch_size=settings.batch_size, sigma=settings.noise, seed=seed,
        )  # fmt: skip
        losses = train(
            model, loss, TrainingPlan.of(settings, settings.lr_of(task, arm), settings.steps)
        )
        labels = {**metadata, "task": task, "arm": arm, "flip": repr(flip), "seed": str(seed),
                  "width": str(width), "blocks": str(blocks),
                  "noise": repr(settings.noise)}  # fmt: skip
        write_weights(head, {**weights_of(model, "trained"), "losses": losses}, labels)
