"""Fine-tune both final projections on one pairing, all seeds at once, towers frozen."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from mispair import settings

if TYPE_CHECKING:
    from mispair.towers.features import Part

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    starts: list[Literal["pretrained", "reinitialised"]] = settings.sweep(
        ["pretrained", "reinitialised"],
        min_length=1,
        description="Projections to start from: those of the model, or random ones.",
    )
    loss: Literal["infonce", "spectral"] = Field(
        "infonce", description="infonce on cosines, or the spectral loss of the paper's Eq. 1."
    )
    spectral_temperature: float = Field(1.0, gt=0, description="Temperature tau of Eq. 1.")
    epochs: int = Field(10, ge=1, description="Passes over the pairs.")
    batch_size: int = Field(256, ge=2, description="Pairs in a step.")
    lr: float = Field(1e-3, gt=0, description="Learning rate of AdamW after the warm-up.")
    final_lr: float = Field(1e-5, ge=0, description="Learning rate at the end of the cosine.")
    warmup_epochs: int = Field(1, ge=0, description="Epochs of linear warm-up, of all epochs.")
    warmup_lr: float = Field(1e-6, ge=0, description="Learning rate of the first warm-up step.")
    weight_decay: float = Field(0.5, ge=0, description="AdamW's decay, on matrices only.")
    freeze_logit_scale: bool = Field(True, description="Keep the factor on the cosines as it is.")
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
        if self.warmup_epochs >= self.epochs:
            raise ValueError(
                f"warmup_epochs: {self.warmup_epochs} must be fewer than epochs ({self.epochs})"
            )
        if self.pairs is not None and self.pairs < self.batch_size:
            raise ValueError(
                f"pairs: {self.pairs} must be at least batch_size ({self.batch_size}), "
                "or an epoch has no step"
            )
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
    """Write the fine-tuned projections of one arm, with the loss of every step."""
    from functools import partial

    from mispair import files, seeds
    from mispair.devices import choose_device
    from mispair.towers import projection as towers
    from mispair.towers.features import gather, read_part

    table, origin = files.read_parquet(pairing)
    if settings.pairs is not None and settings.pairs < len(table):
        draw = seeds.generator(settings.seed, "finetune-projection", "pairs")
        table = table.iloc[sorted(draw.permutation(len(table))[: settings.pairs])]
    tensors, model = files.read_tensors(untouched)
    names = list(range(settings.seeds))
    streams = [seeds.integer(settings.seed, "finetune-projection", name) for name in names]
    training = settings.model_dump(include=set(towers.Training.__dataclass_fields__))
    arm = f"{start}, {origin['scheme']}, C_m {rate:g}"
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
        data = gather({path.stem: partial(load, path) for path in features}, table)
        stack = towers.Projections.from_tensors(tensors)
        initial = towers.starting_point(start, stack, streams)
        device = choose_device(settings.device)
        tuned, loss = towers.finetune(data, initial, towers.Training(**training), streams, device)
    except (ValueError, FloatingPointError) as error:
        raise files.UserError(f"finetune_projection ({arm}): {error}.") from error
    about = {"start": start, "rate": repr(rate), "seeds": json.dumps(names)}
    used = {
        "pairs": str(len(table)),
        "crops": str(data.crops),
        "pairs_swapped_share": repr(float(table["swapped"].mean())),
        "pairs_text_changed_share": repr(float(table["text_changed"].mean())),
    }
    arrays = {**tuned.tensors(), "loss": loss}
    files.write_tensors(projection, arrays, {**model, **origin, **about, **used})
    log.info("%s: loss of the first step %s, of the last %s", arm, loss[:, 0], loss[:, -1])
