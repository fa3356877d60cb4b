"""Train a head for conditional denoising or for the next word, on a frozen feature or jointly."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

from pydantic import Field

from mispair.core import settings
from mispair.sufficiency.names import ARMS, OF_ENCODERS, TASKS, Arm, Flip, Task

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    flips: list[Flip] = settings.sweep(
        [0.2], min_length=1, description="Flip probabilities p at which heads are trained."
    )
    tasks: list[Task] = settings.sweep(
        ["cdm", "vlm"],
        min_length=1,
        description="cdm: denoise an image given its text; vlm: the next word given an image.",
    )
    arms: list[Arm] = settings.sweep(
        ["frozen", "untrained"],
        description="What a head is told of the other modality: the standard encoder's feature "
        "(frozen; shallow has a head of shallow_blocks), that of the encoder before it was trained "
        "(untrained), the exact posterior (oracle), or all leaves (joint; guided is shown the "
        "messages of belief propagation too).",
    )
    width: int = Field(32, ge=1, description="Width of a token, at least the number of symbols.")
    vlm_width: int | None = Field(
        None, ge=1, description="The same for the next word; null for width."
    )
    blocks: int = Field(3, ge=1, description="Blocks of a head.")
    shallow_blocks: int = Field(1, ge=1, description="Blocks of the shallow head.")
    guided_blocks: int | None = Field(
        None, ge=1, description="Blocks of the guided head; null for the 2 L + 1 that it needs."
    )
    steps: int = Field(200, ge=1, description="Batches of fresh pairs.")
    batch_size: int = Field(128, ge=1, description="Pairs of a batch.")
    lr: float = Field(3e-3, gt=0, description="First step size of AdamW; it falls along a cosine.")
    guided_cdm_lr: float | None = Field(
        None, gt=0, description="The same for guided denoising; null for lr."
    )
    joint_vlm_lr: float | None = Field(
        None, gt=0, description="The same for the joint next word; null for lr."
    )
    last_lr_share: float = Field(
        1e-3, ge=0, le=1, description="Last step size, as a share of the first."
    )
    weight_decay: float = Field(1e-3, ge=0, description="Decay of all weights.")
    clip: float = Field(1.0, gt=0, description="Largest norm of a gradient.")
    cdm_guidance_weight: float = Field(
        0.1, ge=0, description="Weight of a guided denoiser's distance to the messages."
    )
    vlm_guidance_weight: float = Field(
        1e-3, ge=0, description="Weight of a guided next-word head's distance to the messages."
    )
    noise: float = Field(1.0, gt=0, description="Standard deviation of the image's noise.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where it is trained; auto takes a GPU when there is one."
    )


def run(
    settings: Settings, *, trees: Path, flip: float, task: str, arm: str, seed: int,
    encoders: list[Path], checkpoint: Path, head: Path,
) -> None:  # fmt: skip
    """Write the weights of one head.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    trees : Path
        Of draw_trees.
    flip : float
        Flip probability of both trees.
    task, arm : str
        cdm or vlm, and what the head is told.
    seed : int
        Of the weights and of the pairs, and of the encoders.
    encoders : list of Path
        The standard encoders, for arms that read them; else none.
    checkpoint : Path
        Folder for the state of the training: a job that was killed goes on. Removed at the end.
    head : Path
        Written.
    """
    from mispair.core.files import UserError
    from mispair.core.progress import Progress
    from mispair.core.provenance import code_version, file_digest, fingerprint
    from mispair.core.resume import checkpoints
    from mispair.sufficiency import artefacts, heads
    from mispair.sufficiency.encoders import weights_of
    from mispair.sufficiency.sampling import trees_at
    from mispair.sufficiency.training import Plan, train

    if task not in TASKS or arm not in ARMS:
        raise UserError(
            f"--task, --arm: there is no {task} of {arm}; tasks are {', '.join(TASKS)}, arms "
            f"{', '.join(ARMS)}."
        )
    if (arm in OF_ENCODERS) != bool(encoders):
        raise UserError(f"--encoders: {arm} takes {'one file' if not encoders else 'none'}.")
    device = artefacts.prepared(settings.device)
    skeletons, metadata = artefacts.read_trees(trees)
    size = skeletons.size
    width = (settings.vlm_width or settings.width) if task == "vlm" else settings.width
    blocks = {
        "shallow": settings.shallow_blocks,
        "guided": settings.guided_blocks or 2 * size.depth + 1,
    }.get(arm, settings.blocks)
    tokens = 2 * size.leaves if arm in ("joint", "guided") else size.leaves + 1
    artefacts.refuse(
        size.bytes_of_training(settings.batch_size, width, blocks, tokens)
        + size.bytes_of_samples(settings.batch_size)
        + size.bytes_of_messages(settings.batch_size, 4),
        device,
        f"train_head: a batch of {settings.batch_size:,} pairs of {size.leaves:,} leaves each",
        "lower train_head.batch_size, width or blocks, or draw_trees.depth or branching",
    )
    exceptions = {
        ("cdm", "guided"): settings.guided_cdm_lr,
        ("vlm", "joint"): settings.joint_vlm_lr,
    }
    lr = exceptions.get((task, arm)) or settings.lr
    plan = Plan(
        settings.steps, lr, lr * settings.last_lr_share, settings.weight_decay, settings.clip
    )
    job = [settings.model_dump_json(), metadata["fingerprint"], repr(flip), task, arm, str(seed)]
    job += [device, *map(file_digest, encoders), *code_version("train_head")]
    with checkpoints(checkpoint, fingerprint(job)) as states:
        towers = None
        if encoders:
            towers, _ = artefacts.read_towers(encoders[0], device, trained=arm != "untrained")
        try:
            model = heads.start_head(task, arm, size, width, blocks, seed).to(device)
            loss = heads.loss_of_step(
                task, arm, model, trees_at(skeletons, flip, flip, device), towers,
                batch_size=settings.batch_size, sigma=settings.noise, seed=seed,
                guidance_weight=getattr(settings, f"{task}_guidance_weight"),
            )  # fmt: skip
            with Progress(
                f"{task}, {arm}, p = {flip:g}, seed {seed}", plan.steps, "steps"
            ) as progress:
                losses = train(model, loss, plan, states.keeper("training"), progress.reach)
        except (ValueError, FloatingPointError) as error:
            raise UserError(f"train_head ({task}, {arm}, p = {flip:g}): {error}.") from error
        which = {**metadata, "task": task, "arm": arm, "flip": repr(flip), "seed": str(seed)}
        which |= {"width": str(width), "blocks": str(blocks), "noise": repr(settings.noise)}
        artefacts.write_weights(head, {**weights_of(model, "trained"), "losses": losses}, which)
    last = losses[-100:].mean().item()
    log.info("%s, %s, p = %g, seed %d: mean of the last losses %.4f", task, arm, flip, seed, last)
