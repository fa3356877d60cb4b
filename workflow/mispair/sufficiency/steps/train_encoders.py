"""Train a text and an image encoder contrastively on fresh pairs of the two trees."""

from pathlib import Path

from mispair.sufficiency.settings import VARIANTS
from mispair.sufficiency.settings import EncoderSettings as Settings


def run(
    settings: Settings, *, trees: Path, flip: float, variant: str, seed: int, checkpoint: Path,
    encoders: Path,
) -> None:  # fmt: skip
    """Write the weights after training, and those before, which are a control.

    `flip` is the flip probability of both trees; `seed` draws the weights and the pairs. A job that
    is killed continues from its state in the folder `checkpoint`.
    """
    from mispair.core.files import UserError
    from mispair.core.training import TrainingPlan, training_job
    from mispair.sufficiency import encoders as models
    from mispair.sufficiency.settings import refuse_too_large
    from mispair.sufficiency.trees import prepared, read_trees, trees_at

    if variant not in VARIANTS:
        raise UserError(f"--variant: there is no {variant}; there are {', '.join(VARIANTS)}.")
    device = prepared(settings.device)
    skeletons, metadata = read_trees(trees)
    size, width, blocks = skeletons.size, settings.width, settings.blocks_of(variant)
    refuse_too_large(
        2 * size.bytes_of_training(settings.batch_size, width, blocks, size.leaves)
        + size.bytes_of_samples(settings.batch_size),
        device,
        f"train_encoders: a batch of {settings.batch_size:,} pairs of {size.leaves:,} leaves each",
        "lower train_encoders.batch_size, width or blocks, or draw_trees.depth or branching",
    )
    label = f"{variant}, p = {flip:g}, seed {seed}"
    job = [settings.model_dump_json(), metadata["fingerprint"], repr(flip), label, device]
    with training_job("train_encoders", label, job, checkpoint) as train:
        towers = models.start_towers(size, width, blocks, seed).to(device)
        before = models.weights_of(towers, models.UNTRAINED)
        loss = models.loss_of_step(
            towers, trees_at(skeletons, flip, device), batch_size=settings.batch_size,
            candidates=settings.candidates, seed=seed,
            guidance_weight=settings.guidance_of(variant),
        )  # fmt: skip
        losses = train(
            towers, loss, TrainingPlan.of(settings, settings.lr_of(variant), settings.steps)
        )
        labels = {**metadata, "variant": variant, "flip": repr(flip), "seed": str(seed),
                 "leaves": str(size.leaves), "symbols": str(size.symbols),
                 "width": str(width), "blocks": str(blocks)}  # fmt: skip
        weights = {**before, **models.weights_of(towers, "trained"), "losses": losses}
        models.write_weights(encoders, weights, labels)
