"""Keep some neurons of the projections and classify again, over strategies and numbers kept."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from mispair.core import settings
from mispair.core.settings import command_line
from mispair.towers.arms import AnyStart

if TYPE_CHECKING:
    import numpy as np

    from mispair.core.metrics import Row
    from mispair.evaluation.inputs import EncodedSet

log = logging.getLogger(__name__)

RANGE = r"^(\d+)-(\d+)(?::([1-9]\d*))?$"
"""From, to (included) and step."""

PUBLISHED_WIDTH = 512
"""Neurons of the published models. The paper keeps 200 to 500 of them."""


def expanded(ks: Any) -> Any:
    """Replace ranges such as ``200-500:50`` in a list by numbers, sorted and without duplicates.

    Raises
    ------
    ValueError
        If an entry is neither a number nor a range.
    """
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


Number = Annotated[int, Field(ge=1)]
"""A number of neurons."""

Numbers = Annotated[
    list[Number] | None,
    BeforeValidator(
        expanded, json_schema_input_type=list[Number | Annotated[str, Field(pattern=RANGE)]] | None
    ),
]
"""A setting of numbers of neurons, in which ranges are allowed."""


def numbers_of_width(neurons: int) -> list[int]:
    """Return the paper's 200 to 500 of 512 neurons in proportion, or each eighth of fewer.

    Examples
    --------
    >>> numbers_of_width(512)
    [200, 250, 300, 350, 400, 450, 500]
    >>> numbers_of_width(64)
    [8, 16, 24, 32, 40, 48, 56, 64]
    """
    if neurons >= PUBLISHED_WIDTH:
        return [neurons * k // PUBLISHED_WIDTH for k in range(200, 501, 50)]
    return sorted({-(-neurons * eighth // 8) for eighth in range(1, 9)})


class Settings(settings.Settings):
    starts: list[AnyStart] = settings.sweep(
        ["untouched"], description="Arms that are pruned: untouched or fine-tuned projections."
    )
    ks: Numbers = Field(
        None, min_length=1,
        description="Numbers of neurons kept, at most the width of the embedding; ranges are "
        '"200-500" or, in steps, "200-500:50". null follows the width: the paper\'s 200 to 500 of '
        "512 neurons in steps of 50, in proportion for wider models, and each eighth of a narrower "
        "one.",
    )  # fmt: skip
    draws: int = Field(
        20, ge=1, description="Draws of the strategy random; all rotated bases together have as "
        "many.",
    )  # fmt: skip
    rotations: int = Field(
        3, ge=0, description="Randomly rotated bases that are pruned in the same way, as a control."
    )
    seeds: int = Field(1, ge=1, description="Number of fine-tuning seeds pruned, from the first.")
    seed: int = Field(0, ge=0, description="Seed of the random draws and rotations.")

    def kept_of(self, neurons: int) -> list[int]:
        """Return the numbers of neurons kept of a model with `neurons`, in order."""
        return numbers_of_width(neurons) if self.ks is None else self.ks


def run(
    settings: Settings, *, projection: Path, images: list[Path], prompts: list[Path], pruning: Path
) -> None:
    """Write accuracy and silhouette of every set, strategy, ranking, basis and k.

    Sets that a former job pruned in the same way are not pruned again.
    """
    from functools import partial

    from mispair.core import files, metrics
    from mispair.core.progress import Progress
    from mispair.core.provenance import code_version, file_digest
    from mispair.core.reuse import Parts
    from mispair.evaluation.inputs import naming, origins, read_projections, read_sets
    from mispair.evaluation.purity import random_rotations

    arm = read_projections(projection)
    ks = settings.kept_of(arm.neurons)
    if ks[-1] > arm.neurons:
        raise files.UserError(
            f"prune_neurons: ks: {ks[-1]} is more than the {arm.neurons} neurons of {projection}; "
            f"give values from 1 to {arm.neurons}."
        )
    rotations = random_rotations(arm.neurons, settings.rotations, settings.seed)
    rows: list[metrics.Row] = []
    provenance, some = {"projection": arm.origin, **origins([])}, arm.of_seeds(settings.seeds)
    code = code_version("prune_neurons")
    kept = Parts(pruning, [pruning.name, command_line(settings), file_digest(projection), *code])
    # Sets of captioned pictures count although they are not pruned: their kind is in the file.
    with Progress("pruning", len(images), "sets") as progress:
        progress.reach(0)
        for data in read_sets(images, sorted(prompts), arm.towers):
            if data.labels is None:
                continue
            for key, metadata in origins([data]).items():
                provenance[key] |= metadata
            with naming(f"{data.name} with {projection}"):
                task = partial(_pruned, data, some, ks, rotations, settings)
                rows += kept.measured(data.digest(), task)[0]
            progress.advance()
            log.info("%s: %d rows so far", data.name, len(rows))
    metrics.write_metrics(pruning, rows, provenance)
    kept.replace()


def _pruned(
    data: EncodedSet,
    models: list[tuple[int, np.ndarray, np.ndarray]],
    ks: list[int],
    rotations: list[np.ndarray],
    settings: Settings,
) -> tuple[list[Row], dict[str, np.ndarray]]:
    """Return the scores of a set for each seed, and no arrays."""
    from mispair.evaluation.pruning import PrunableModel, sweep_bases

    rows = []
    for seed, image, text in models:
        model = PrunableModel(data, image, text)
        results = sweep_bases(model, ks, rotations, settings.draws, settings.seed)
        rows += [{**row, "evaluation_set": data.name, "seed": seed} for row in results]
    return rows, {}
