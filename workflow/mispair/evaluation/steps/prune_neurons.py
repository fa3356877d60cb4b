"""Keep some neurons of the projections and classify again, over strategies and numbers kept."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings
from mispair.evaluation.numbers_kept import Numbers, numbers_of_width
from mispair.towers.arms import AnyStart

log = logging.getLogger(__name__)


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
    """Write accuracy and silhouette of every set, strategy, ranking, basis and k."""
    from mispair.core import files, metrics
    from mispair.core.progress import Progress
    from mispair.evaluation.projections import naming, read_projections
    from mispair.evaluation.pruning import PrunableModel, sweep_bases
    from mispair.evaluation.purity import random_rotations
    from mispair.evaluation.set_files import origins, read_sets

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
    # Sets of captioned pictures count although they are not pruned: their kind is in the file.
    with Progress("pruning", len(images) * len(some), "sets and seeds") as progress:
        progress.reach(0)
        for data in read_sets(images, sorted(prompts), arm.towers):
            if data.labels is None:
                continue
            for key, metadata in origins([data]).items():
                provenance[key] |= metadata
            for seed, image, text in some:
                with naming(f"{data.name} with {projection}"):
                    model = PrunableModel(data, image, text)
                keys = {"evaluation_set": data.name, "seed": seed}
                results = sweep_bases(model, ks, rotations, settings.draws, settings.seed)
                rows += [{**row, **keys} for row in results]
                progress.advance()
            log.info("%s: %d rows so far", data.name, len(rows))
    metrics.write_metrics(pruning, rows, provenance)
