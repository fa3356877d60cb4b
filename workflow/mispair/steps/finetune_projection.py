"""Fine-tune both final projections on one pairing, all seeds at once, towers frozen."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from mispair import settings
from mispair.arms import STARTS, Start
from mispair.towers.finetuning_presets import FineTuning, arm, refuse, resolve

if TYPE_CHECKING:
    from mispair.towers.features import Part

log = logging.getLogger(__name__)


class Settings(FineTuning):
    starts: list[Start] = settings.sweep(
        list(STARTS),
        min_length=1,
        description="Arms, each at every rate: pretrained starts from the model's projections; the "
        "controls differ from it in one thing: reinitialised starts from random projections, "
        "without-decay has no weight decay, free-logit-scale trains the logit scale (with "
        "logit_scale: free it is the other way round, and keeps it frozen).",
    )
    seeds: int = Field(3, ge=1, description="Independent runs, which differ in batch order.")
    pairs: int | None = Field(
        10_000, ge=2, description="Pairs trained on: a seeded subset of all; none takes all."
    )
    seed: int = Field(0, ge=0, description="Seed of the subset, the batch orders and new weights.")
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
    projection: Path,
) -> None:
    """Write the fine-tuned projections of one arm, with the loss of every step.

    A job that is killed goes on from the last state in the folder beside the result, called as the
    result with ``.parts``; it is removed at the end.
    """
    from functools import partial

    from mispair import files, provenance, seeds
    from mispair.checkpoints import checkpoints
    from mispair.devices import choose_device
    from mispair.progress import Progress
    from mispair.towers import projection as towers
    from mispair.towers.features import gather, read_part

    table, origin = files.read_parquet(pairing)
    if settings.pairs is not None and settings.pairs < len(table):
        draw = seeds.generator(settings.seed, "finetune-projection", "pairs")
        table = table.iloc[sorted(draw.permutation(len(table))[: settings.pairs])]
    tensors, model = files.read_tensors(untouched)
    names = list(range(settings.seeds))
    streams = [seeds.integer(settings.seed, "finetune-projection", name) for name in names]
    about_arm = f"{start}, {origin['scheme']}, C_m {rate:g}"
    tables = {path.stem: path for path in feature_rows}
    if unpaired := tables.keys() ^ {path.stem for path in features}:
        raise files.UserError(
            f"finetune_projection: features and their tables of rows go by the same names, but "
            f"{sorted(unpaired)} is given as one of them only."
        )

    def load(path: Path) -> Part:
        part = read_part(path, tables[path.stem])
        if part.metadata.get("towers") != model.get("towers"):
            raise ValueError(f"{path} comes from other towers than {untouched}")
        return part

    try:
        first, training = arm(start, resolve(settings))
        refuse(training, len(table))
        data = gather({path.stem: partial(load, path) for path in features}, table)
        stack = towers.Projections.from_tensors(tensors)
        initial = towers.starting_point(first, stack, streams)
        device = choose_device(settings.device)
        content = towers.fingerprint(data, initial, training, streams)
        job = [content, device, *provenance.code_version("finetune_projection")]
    except ValueError as error:
        raise files.UserError(f"finetune_projection ({about_arm}): {error}.") from error
    with checkpoints(
        projection.with_name(f"{projection.name}.parts"), provenance.fingerprint(job)
    ) as parts:
        try:
            steps = training.epochs * (len(table) // training.batch_size)
            with Progress(f"fine-tuning {about_arm}", steps, "steps") as progress:
                tuned, loss = towers.finetune(
                    data, initial, training, streams, device, parts.keeper("training"),
                    progress.reach,
                )  # fmt: skip
        except (ValueError, FloatingPointError) as error:
            raise files.UserError(f"finetune_projection ({about_arm}): {error}.") from error
        about = {"start": start, "rate": repr(rate), "seeds": json.dumps(names)}
        used = {
            "preset": settings.preset,
            "training": json.dumps(asdict(training)),
            "pairs": str(len(table)),
            "crops": str(data.crops),
            "pairs_swapped_share": repr(float(table["swapped"].mean())),
            "pairs_text_changed_share": repr(float(table["text_changed"].mean())),
        }
        arrays = {**tuned.tensors(), "loss": loss}
        files.write_tensors(projection, arrays, {**model, **origin, **about, **used})
    log.info("%s: loss of the first step %s, of the last %s", about_arm, loss[:, 0], loss[:, -1])
