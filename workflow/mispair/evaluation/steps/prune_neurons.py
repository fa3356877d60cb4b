"""Keep some neurons of the projections and classify again, over strategies and numbers kept."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from mispair.core import settings
from mispair.towers.arms import AnyStart

log = logging.getLogger(__name__)

RANGE = r"^(\d+)-(\d+)(?::([1-9]\d*))?$"
"""From, to (included) and step."""

PUBLISHED_WIDTH = 512
"""Neurons of the published models, of which the paper keeps 200 to 500."""


class Settings(settings.Settings):
    starts: list[AnyStart] = settings.sweep(
        ["untouched"], description="Arms that are pruned: the model's own projections, or tuned."
    )
    ks: list[Annotated[int, Field(ge=1)]] | None = Field(
        None,
        min_length=1,
        description="Numbers of neurons kept, at most the width of the embedding; ranges are "
        '"200-500" or, in steps, "200-500:50". null follows the width: the paper\'s 200 to 500 of '
        "512 neurons in steps of 50, in proportion for wider models, and each eighth of a narrower "
        "one.",
    )
    draws: int = Field(
        20,
        ge=1,
        description="Random draws of the strategy random; of rotated bases all together have as "
        "many.",
    )
    rotations: int = Field(
        3, ge=0, description="Randomly rotated bases in which the same is done, as a control."
    )
    seeds: int = Field(1, ge=1, description="Fine-tuning seeds pruned, the first ones.")
    seed: int = Field(0, ge=0, description="Seed of the random draws and rotations.")

    @field_validator(
        "ks",
        mode="before",
        json_schema_input_type=list[
            Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=RANGE)]
        ]
        | None,
    )
    @classmethod
    def _expanded(cls, ks: Any) -> Any:
        """Replace ranges by their numbers; all in order, each once."""
        if not isinstance(ks, list):
            return ks
        numbers: set[int] = set()
        for entry in ks:
            if match := re.match(RANGE, str(entry)):
                first, last, step = (int(part or 1) for part in match.groups())
                if last < first:
                    raise ValueError(f"{entry!r} ends before it begins")
                numbers.update(range(first, last + 1, step))
            elif re.fullmatch(r"\d+", str(entry)):
                numbers.add(int(entry))
            else:
                raise ValueError(
                    f"{entry!r} is neither a number nor a range such as 200-500 or 200-500:50"
                )
        return sorted(numbers)

    def kept_of(self, neurons: int) -> list[int]:
        """Return the numbers of neurons kept of a model's, in order.

        Examples
        --------
        >>> Settings().kept_of(512)
        [200, 250, 300, 350, 400, 450, 500]
        >>> Settings().kept_of(64)
        [8, 16, 24, 32, 40, 48, 56, 64]
        """
        if self.ks is not None:
            return self.ks
        if neurons >= PUBLISHED_WIDTH:
            return [neurons * k // PUBLISHED_WIDTH for k in range(200, 501, 50)]
        return sorted({-(-neurons * eighth // 8) for eighth in range(1, 9)})


def run(
    settings: Settings, *, projection: Path, images: list[Path], prompts: list[Path], pruning: Path
) -> None:
    """Write accuracy and silhouette of every set, strategy, ranking, basis and k.

    Rotated bases are a control of what is said of purity, and have no other rankings.
    """
    from mispair.core import files, metrics, seeds
    from mispair.core.progress import Progress
    from mispair.evaluation.pruning import PURITY, RANKED, PrunableModel, origins, read_sets, sweep
    from mispair.evaluation.purity import random_rotation

    tensors, origin = files.read_tensors(projection)
    stacks = tensors["image_projection"], tensors["text_projection"]
    neurons = stacks[0].shape[2]
    ks = settings.kept_of(neurons)
    if ks[-1] > neurons:
        raise files.UserError(
            f"prune_neurons: ks: {ks[-1]} is more than the {neurons} neurons of "
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
    provenance: dict[str, Any] = {"projection": origin, **origins([])}
    stack = list(zip(names, *stacks, strict=True))[: settings.seeds]
    # Sets of captioned pictures, which are not pruned, are counted: only reading tells which.
    progress = Progress("pruning", len(images) * len(stack) * len(bases), "sweeps")
    progress.reach(0)
    for data in read_sets(images, prompts, origin.get("towers")):
        name = data.about["name"]
        for key, metadata in origins([data]).items():
            provenance[key] |= metadata
        for seed, image, text in stack:
            try:
                whole = PrunableModel(data, image, text)
            except ValueError as error:
                raise files.UserError(f"{name} with {projection}: {error}.") from error
            for basis, rotation in bases.items():
                model, strategies, draws = whole, RANKED, settings.draws
                if rotation is not None:
                    model, strategies = whole.rotated(rotation), PURITY
                    draws = -(-settings.draws // settings.rotations)
                generators = [
                    seeds.generator(settings.seed, "prune-neurons", basis, draw)
                    for draw in range(draws)
                ]
                keys = {"basis": basis, "evaluation_set": name, "seed": seed}
                results = sweep(model, ks, generators, strategies)
                rows += [{**row, **keys} for row in results]
                progress.advance()
        log.info("%s: %d rows so far", name, len(rows))
    progress.close()
    metrics.write_metrics(pruning, rows, provenance)
