"""Fine-tune both final projections on one pairing, all seeds at once, towers frozen."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from mispair.core import settings
from mispair.towers.arms import STARTS, Start
from mispair.towers.finetuning.finetuning_presets import FineTuning, arm, refuse, resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

log = logging.getLogger(__name__)


class Settings(FineTuning):
    starts: list[Start] = settings.sweep(
        # The shipped towers have a scale of 35.5; 10 and 70 are far enough from it on both sides.
        [start for start in STARTS if start not in ("scale-5", "scale-20", "scale-35")],
        min_length=1,
        description="Arms, each at every rate: pretrained starts from the model's projections; the "
        "controls differ from it in one thing: scale-converged sets the logit scale to its "
        "optimum, scale-5 to scale-70 set it to that value and freeze it, reinitialised and "
        "reinitialised-small start from random projections of norm x 1 and x 0.1, without-decay "
        "has no weight decay. Controls are trained on the first scheme only.",
    )
    control_rates: int | None = settings.sweep(
        3, ge=2,
        description="Number of rates at which controls other than scale-converged are trained: the "
        "lowest, the largest and others evenly between them; null takes all.",
    )  # fmt: skip
    weights: Literal["none", "audit"] = settings.sweep(
        "none",
        description="audit adds the arm audit-weighted: as pretrained, but the loss of each pair "
        "is weighted by the probability that its caption is right, which the untouched model says "
        "of the pairs that are trained on (weigh_pairs).",
    )
    seeds: int = Field(
        5, ge=1,
        description="Independent runs: each has its own draw of swaps, its own subset of pairs and "
        "its own order of batches.",
    )  # fmt: skip
    pairs: int | None = Field(
        10_000, ge=2, description="Pairs trained on: a subset of all for each seed; none takes all."
    )
    seed: int = Field(0, ge=0, description="Seed of the subsets, the batch orders and new weights.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where to compute: auto takes a GPU where there is one."
    )

    @model_validator(mode="after")
    def _leaves_steps_to_train(self) -> Settings:
        refuse(resolve(self), self.pairs)
        return self


def run(
    settings: Settings,
    *,
    start: str,
    rate: float,
    pairing: Path,
    features: list[Path],
    feature_rows: list[Path],
    untouched: Path,
    weights: list[Path],
    projection: Path,
) -> None:
    """Write the fine-tuned projections of one arm, with the loss of every step.

    The file also has, for each seed, the log of the logit scale after each epoch, whether it
    converged, and the mean cosine gap of the pairs. A job that is killed continues from the last
    state in the folder next to the result, named as the result with ``.parts``; that folder is
    removed at the end.
    """
    import numpy as np

    from mispair.core import files, provenance, seeds
    from mispair.core.devices import choose_device
    from mispair.core.progress import Progress
    from mispair.core.resume import checkpoints
    from mispair.pairs.corruption.swap_draws import column
    from mispair.towers.features import gather, parts_of_towers
    from mispair.towers.finetuning import projection as towers
    from mispair.towers.finetuning.batches import subset
    from mispair.towers.logit_scale import converged

    table, origin = files.read_parquet(pairing)
    tensors, model = files.read_tensors(untouched)
    names = list(range(settings.seeds))
    streams = [seeds.integer(settings.seed, "finetune-projection", name) for name in names]
    described = f"{start}, {origin['scheme']}, C_m {rate:g}"
    if column("caption_id", names[-1]) not in table:
        raise files.UserError(
            f"finetune_projection ({described}): {pairing} has fewer draws of swaps than "
            f"{len(names)} seeds need. Delete it and run again."
        )
    chosen = [subset(len(table), settings.pairs, settings.seed, name) for name in names]
    try:
        trained = arm(start, resolve(settings))
        training = trained.training
        refuse(training, len(chosen[0]))
        parts_by_name = parts_of_towers(features, feature_rows, model.get("towers"))
        data = gather(parts_by_name, table, chosen)
        if weights:
            data = replace(data, weights=_weights(weights[0], chosen))
        stack = towers.Projections.from_tensors(tensors)
        initial = towers.starting_point(stack, streams, trained.random_norm, trained.fixed_scale)
        device = choose_device(settings.device)
        content = towers.fingerprint(data, initial, training, streams)
        job = [content, device, *provenance.code_version("finetune_projection")]
    except ValueError as error:
        raise files.UserError(f"finetune_projection ({described}): {error}.") from error
    with checkpoints(
        projection.with_name(f"{projection.name}.parts"), provenance.fingerprint(job)
    ) as parts:
        try:
            steps = training.epochs * (data.pairs // training.batch_size)
            with Progress(f"fine-tuning {described}", steps, "steps") as progress:
                tuned = towers.finetune_in_portions(
                    data, initial, training, streams, device, parts.keeper, progress.reach
                )
        except (ValueError, FloatingPointError) as error:
            raise files.UserError(f"finetune_projection ({described}): {error}.") from error
        shares = {
            f"pairs_{name}_share": [
                float(table[column(name, draw)].iloc[rows].mean())
                for draw, rows in enumerate(chosen)
            ]
            for name in ("swapped", "text_changed")
        }
        names_of_arm = {"start": start, "rate": repr(rate), "seeds": json.dumps(names)}
        used = {
            "preset": settings.preset,
            "training": json.dumps(asdict(training)),
            "pairs": str(data.pairs),
            "crops": str(data.crops),
            # The mean over seeds; each has its own pairs and swaps.
            **{name: repr(float(np.mean(values))) for name, values in shares.items()},
            **{f"{name}_by_seed": json.dumps(values) for name, values in shares.items()},
        }
        arrays = {
            **tuned.projections.tensors(),
            "loss": tuned.loss,
            "logit_scale_by_epoch": tuned.log_scales,
            "logit_scale_drift": tuned.drift,
            "logit_scale_newton_step": tuned.newton_step,
            "cosine_gap": tuned.gap,
        }
        files.write_tensors(projection, arrays, {**model, **origin, **names_of_arm, **used})
    log.info(
        "%s: loss of the first step %s, of the last %s; logit scale %s, converged %s",
        described, tuned.loss[:, 0], tuned.loss[:, -1],
        np.exp(tuned.projections.logit_scale), converged(tuned.drift, tuned.newton_step),
    )  # fmt: skip


def _weights(path: Path, chosen: Sequence[np.ndarray]) -> np.ndarray:
    """Return the weights (s, n) of the pairs of each seed.

    Raises
    ------
    ValueError
        If they are those of other pairs.
    """
    import numpy as np

    from mispair.core import files

    tensors, _ = files.read_tensors(path)
    if not np.array_equal(tensors["rows"], np.stack(chosen)):
        raise ValueError(f"{path} has the weights of other pairs; delete it and run again")
    return tensors["weights"]
