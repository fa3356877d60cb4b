"""Train a text and an image encoder contrastively on fresh pairs of the two trees."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from mispair.core import settings
from mispair.sufficiency.names import VARIANTS, Flip, Variant

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    flips: list[Flip] = settings.sweep(
        [0.2],
        min_length=1,
        description="Flip probabilities p at which encoders are trained, of both trees.",
    )
    variants: list[Variant] = settings.sweep(
        ["standard"],
        min_length=1,
        description="standard; guided (its blocks are shown the messages of belief propagation); "
        "shallow (shallow_blocks).",
    )
    variants_flips: list[Flip] | None = settings.sweep(
        None,
        description="Flip probabilities at which variants other than standard are trained; null "
        "for all.",
    )
    seeds: list[int] = settings.sweep(
        [0],
        min_length=1,
        description="Seeds of the weights and pairs, of encoders and of the heads that read them.",
    )
    width: int = Field(32, ge=1, description="Width of a token, d.")
    blocks: int = Field(3, ge=1, description="Blocks of each encoder.")
    shallow_blocks: int = Field(1, ge=1, description="Blocks of each shallow encoder.")
    steps: int = Field(400, ge=1, description="Batches of fresh pairs.")
    batch_size: int = Field(64, ge=2, description="Pairs of a batch.")
    candidates: int | None = Field(
        None,
        ge=2,
        description="Candidates K for each pair, the match among them: other pairs of the batch; "
        "null for the whole batch.",
    )
    lr: float = Field(3e-3, gt=0, description="First step size of AdamW; it falls along a cosine.")
    guided_lr: float | None = Field(
        None, gt=0, description="The same for the guided encoders; null for lr."
    )
    last_lr_share: float = Field(
        1e-3, ge=0, le=1, description="Last step size, as a share of the first."
    )
    weight_decay: float = Field(1e-3, ge=0, description="Decay of all weights.")
    clip: float = Field(1.0, gt=0, description="Largest norm of a gradient.")
    guidance_weight: float = Field(
        1e-3, ge=0, description="Weight of the guided encoders' distance to the messages."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where they are trained; auto takes a GPU when there is one."
    )

    @model_validator(mode="after")
    def _no_more_candidates_than_pairs(self) -> Self:
        if self.candidates is not None and self.candidates > self.batch_size:
            raise ValueError(
                f"candidates: {self.candidates} are more than the batch_size of {self.batch_size} "
                "to draw them from"
            )
        return self


def run(
    settings: Settings, *, trees: Path, flip: float, variant: str, seed: int, checkpoint: Path,
    encoders: Path,
) -> None:  # fmt: skip
    """Write the weights after training, and those before, which are a control.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    trees : Path
        Of draw_trees.
    flip : float
        Flip probability of both trees.
    variant : str
        Which encoders: standard, guided or shallow.
    seed : int
        Of the weights and of the pairs.
    checkpoint : Path
        Folder for the state of the training: a job that was killed goes on. Removed at the end.
    encoders : Path
        Written.
    """
    from mispair.core.files import UserError
    from mispair.core.progress import Progress
    from mispair.core.provenance import code_version, fingerprint
    from mispair.core.resume import checkpoints
    from mispair.sufficiency import artefacts
    from mispair.sufficiency import encoders as made
    from mispair.sufficiency.sampling import trees_at
    from mispair.sufficiency.training import Plan, train

    if variant not in VARIANTS:
        raise UserError(f"--variant: there is no {variant}; there are {', '.join(VARIANTS)}.")
    device = artefacts.prepared(settings.device)
    skeletons, metadata = artefacts.read_trees(trees)
    size = skeletons.size
    blocks = settings.shallow_blocks if variant == "shallow" else settings.blocks
    artefacts.refuse(
        2 * size.bytes_of_training(settings.batch_size, settings.width, blocks, size.leaves)
        + size.bytes_of_samples(settings.batch_size),
        device,
        f"train_encoders: a batch of {settings.batch_size:,} pairs of {size.leaves:,} leaves each",
        "lower train_encoders.batch_size, width or blocks, or draw_trees.depth or branching",
    )
    lr = (settings.guided_lr or settings.lr) if variant == "guided" else settings.lr
    plan = Plan(
        settings.steps, lr, lr * settings.last_lr_share, settings.weight_decay, settings.clip
    )
    job = [
        settings.model_dump_json(),
        metadata["fingerprint"],
        repr(flip),
        variant,
        str(seed),
        device,
    ]
    with checkpoints(checkpoint, fingerprint([*job, *code_version("train_encoders")])) as states:
        try:
            towers = made.start_towers(size, settings.width, blocks, seed).to(device)
            before = made.weights_of(towers, made.UNTRAINED)
            loss = made.loss_of_step(
                towers, trees_at(skeletons, flip, flip, device),
                batch_size=settings.batch_size, candidates=settings.candidates, seed=seed,
                guidance_weight=settings.guidance_weight if variant == "guided" else 0.0,
            )  # fmt: skip
            with Progress(f"{variant}, p = {flip:g}, seed {seed}", plan.steps, "steps") as progress:
                losses = train(towers, loss, plan, states.keeper("training"), progress.reach)
        except (ValueError, FloatingPointError) as error:
            raise UserError(f"train_encoders ({variant}, p = {flip:g}): {error}.") from error
        which = {**metadata, "variant": variant, "flip": repr(flip), "seed": str(seed),
                 "leaves": str(size.leaves), "symbols": str(size.symbols),
                 "width": str(settings.width), "blocks": str(blocks)}  # fmt: skip
        weights = {**before, **made.weights_of(towers, "trained"), "losses": losses}
        artefacts.write_weights(encoders, weights, which)
    last = losses[-100:].mean().item()
    log.info("%s, p = %g, seed %d: mean of the last losses %.4f", variant, flip, seed, last)
