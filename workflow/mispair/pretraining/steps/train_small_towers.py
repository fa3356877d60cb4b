"""Train small image and text towers from scratch on one corruption of the captions."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from mispair.core import settings
from mispair.pretraining.names import SCHEMES, Scheme

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    schemes: list[Scheme] = settings.sweep(
        list(SCHEMES),
        min_length=1,
        description="Schemes of corruption whose captions towers are trained on, each at every "
        "rate; towers on clean captions are always trained. See corrupt_captions.schemes.",
    )
    rates: list[Annotated[float, Field(gt=0, le=1)]] = settings.sweep(
        [0.4],
        min_length=1,
        description="Rates of corruption: for random the share of pairs, for spurious and missing "
        "the probability of each named feature.",
    )
    seeds: int = settings.sweep(
        3,
        ge=1,
        description="Independent runs. A seed draws the weights, the batches, the held-out pairs, "
        "what is corrupted and which features are linked; all schemes of a seed share the first "
        "three and the links.",
    )
    held_out: int = Field(
        4000, ge=4, description="Pairs that are not trained on; mixing is measured on them."
    )
    epochs: int = Field(8, ge=1, description="Passes over the other pairs.")
    batch_size: int = Field(256, ge=2, description="Pairs of a batch.")
    lr: float = Field(2e-3, gt=0, description="First step size of AdamW; it falls along a cosine.")
    last_lr_share: float = Field(
        0.01, ge=0, le=1, description="Last step size, as a share of the first."
    )
    weight_decay: float = Field(0.05, ge=0, description="Decay of all weights.")
    clip: float = Field(1.0, gt=0, description="Largest norm of a gradient.")
    crop: int = Field(
        24, ge=8, multiple_of=4, description="Side of the random crops, in pixels of the pictures "
        "that decode_pictures writes.",
    )  # fmt: skip
    channels: int = Field(
        32, ge=1, description="Channels of the first convolution; the second has twice as many."
    )
    width: int = Field(128, ge=2, description="Features before each projection.")
    embedding: int = Field(64, ge=2, description="Neurons of each projection.")
    seed: int = Field(0, ge=0, description="Seed from which the seeds of all runs are derived.")

    @model_validator(mode="after")
    def _no_more_neurons_than_features(self) -> Self:
        if self.embedding > self.width:
            raise ValueError(
                f"embedding: {self.embedding} neurons of {self.width} features (width)"
            )
        return self


def run(
    settings: Settings,
    *,
    scheme: str,
    rate: float,
    draw: int,
    pictures: Path,
    index: list[Path],
    pairing: Path,
    captions: Path,
    checkpoint: Path,
    towers: Path,
) -> None:
    """Write the weights of both towers, the loss of every step and what they were trained on.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    scheme, rate
        Of the corruption; the rate is 0 for clean captions.
    draw : int
        Number of the run, from 0 up.
    pictures : Path
        Of decode_pictures.
    index : list of Path
        The index of each group, for texts.
    pairing : Path
        Which caption each pair has.
    captions : Path
        Texts that the corruption wrote.
    checkpoint : Path
        Folder for the state of the training: a job that was killed goes on. Removed at the end.
    towers : Path
        Written.
    """
    import numpy as np
    import torch

    from mispair.core import files, seeds
    from mispair.core.progress import Progress
    from mispair.core.provenance import code_version, fingerprint
    from mispair.core.resume import checkpoints
    from mispair.pretraining.data import held_out_rows, refuse_other_pairs, texts_of
    from mispair.pretraining.towers import Batches, Sizes, SmallTowers, loss_of_step
    from mispair.pretraining.words import bags, vocabulary
    from mispair.sufficiency.training import Plan, train

    torch.set_num_threads(1)
    table, origin = files.read_parquet(pairing)
    arrays, of_pictures = files.read_tensors(pictures)
    keys = fingerprint(table["key"])
    refuse_other_pairs(pictures, of_pictures, keys)
    run_seed = seeds.integer(settings.seed, "train-small-towers", draw)
    job = [settings.model_dump_json(), str(draw), keys, fingerprint(table["caption_id"]),
           str(arrays["pictures"].shape), *code_version("train_small_towers")]  # fmt: skip
    with checkpoints(checkpoint, fingerprint(job)) as states:
        try:
            held_out = held_out_rows(
                len(table), settings.held_out, seeds.generator(run_seed, "held-out")
            )
            trained = np.setdiff1d(np.arange(len(table)), held_out)
            texts = texts_of(table["caption_id"][trained].tolist(), index, captions)
            terms = vocabulary(texts)
            sizes = Sizes(settings.crop, settings.channels, settings.width, settings.embedding,
                          len(terms))  # fmt: skip
            model = SmallTowers(sizes, run_seed)
            batches = Batches(arrays["pictures"][trained], bags(texts, terms), settings.batch_size,
                              settings.crop, run_seed)  # fmt: skip
            plan = Plan(
                settings.epochs * batches.per_epoch, settings.lr,
                settings.lr * settings.last_lr_share, settings.weight_decay, settings.clip,
            )  # fmt: skip
            with Progress(f"{scheme} {rate:g}, seed {draw}", plan.steps, "steps") as progress:
                losses = train(
                    model, loss_of_step(model, batches), plan, states.keeper("training"),
                    progress.reach,
                )  # fmt: skip
        except (ValueError, FloatingPointError) as error:
            raise files.UserError(
                f"train_small_towers ({scheme}, rate {rate:g}): {error}."
            ) from error
        tensors = {name: values.detach().numpy() for name, values in model.named_parameters()}
        metadata = {
            "scheme": scheme, "rate": repr(rate), "draw": str(draw), "pairs": keys,
            "corruption_seed": origin["seed"], "words": json.dumps(terms),
            **{name: str(getattr(sizes, name)) for name in ("crop", "channels", "width")},
            "embedding": str(sizes.embedding),
        }  # fmt: skip
        files.write_tensors(
            towers, {**tensors, "losses": losses.numpy(), "held_out": held_out}, metadata
        )
    log.info("mean loss of the last epoch %.4f", losses[-batches.per_epoch :].mean().item())
