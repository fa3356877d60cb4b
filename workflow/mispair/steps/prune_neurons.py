"""Keep some neurons of the projections and classify again, over strategies and numbers kept."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from mispair import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    starts: list[Literal["untouched", "pretrained", "reinitialised"]] = settings.sweep(
        ["untouched"], description="Arms that are pruned: the model's own projections, or tuned."
    )
    ks: list[Annotated[int, Field(ge=1)]] = Field(
        [16, 32, 48, 64, 80, 96, 112, 128],
        min_length=1,
        description="Numbers of neurons kept, at most the width of the embedding.",
    )
    draws: int = Field(10, ge=1, description="Random draws of the strategy random.")
    rotations: int = Field(
        3, ge=0, description="Randomly rotated bases in which the same is done, as a control."
    )
    seeds: int = Field(1, ge=1, description="Fine-tuning seeds pruned, the first ones.")
    seed: int = Field(0, ge=0, description="Seed of the random draws and rotations.")

    @field_validator("ks")
    @classmethod
    def _each_once(cls, ks: list[int]) -> list[int]:
        if repeated := sorted({k for k in ks if ks.count(k) > 1}):
            raise ValueError(f"{', '.join(map(str, repeated))} is listed twice")
        return ks


def run(
    settings: Settings, *, projection: Path, evaluation_features: list[Path], pruning: Path
) -> None:
    """Write accuracy and silhouette of every set, strategy, ranking, basis and k."""
    from mispair import files, metrics, seeds
    from mispair.evaluation.pruning import EvaluationSet, PrunableModel, sweep
    from mispair.evaluation.purity import random_rotation

    tensors, origin = files.read_tensors(projection)
    stacks = tensors["image_projection"], tensors["text_projection"]
    neurons = stacks[0].shape[2]
    if too_large := [k for k in settings.ks if k > neurons]:
        raise files.UserError(
            f"prune_neurons: ks: {too_large[0]} is more than the {neurons} neurons of "
            f"{projection}; give values from 1 to {neurons}."
        )
    names = json.loads(origin.get("seeds", "null")) or range(len(stacks[0]))
    bases = {"original": None} | {
        f"rotated-{number}": random_rotation(
            neurons, seeds.generator(settings.seed, "rotation", number)
        )
        for number in range(settings.rotations)
    }
    rows: list[metrics.Row] = []
    sets = {}
    for path in evaluation_features:
        arrays, about = files.read_tensors(path)
        data = EvaluationSet(arrays["image_features"], arrays["labels"], arrays["prompt_features"])
        sets[about["name"]] = about
        for seed, image, text in list(zip(names, *stacks, strict=True))[: settings.seeds]:
            for basis, rotation in bases.items():
                draws = [
                    seeds.generator(settings.seed, "prune-neurons", basis, draw)
                    for draw in range(settings.draws)
                ]
                try:
                    model = PrunableModel(data, image, text, rotation)
                except ValueError as error:
                    raise files.UserError(f"{path} with {projection}: {error}.") from error
                here = {"evaluation_set": about["name"], "seed": seed, "basis": basis}
                rows += [{**here, **row} for row in sweep(model, settings.ks, draws)]
        log.info("%s: %d rows so far", about["name"], len(rows))
    metrics.write_metrics(pruning, rows, {"projection": origin, "evaluation_sets": sets})
