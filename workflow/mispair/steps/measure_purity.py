"""Measure how much the neurons of both projections overlap."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from pydantic import Field

from mispair import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    rotations: int = Field(
        100, ge=0, description="Randomly rotated bases: the null of mean |cos| and its shape ratio."
    )
    bins: int = Field(100, ge=2, description="Bins of the histogram of cosines, from -1 to 1.")
    map_bins: int = Field(
        40, ge=0, le=40,
        description="Groups of neurons along a side of the heat map, which the report shows of the "
        "untouched projections and of the lowest and highest rate; 0 makes none.",
    )  # fmt: skip
    seed: int = Field(0, ge=0, description="Seed of the random rotations.")


def run(settings: Settings, *, projection: Path, purity: Path) -> None:
    """Write purity, spectrum, histogram and null of every seed's projections.

    The heat map is of the first seed alone.
    """
    from mispair import files, metrics, seeds
    from mispair.evaluation.overlap_spectrum import spectral_rows
    from mispair.evaluation.purity import map_rows, measures, random_rotation

    tensors, origin = files.read_tensors(projection)
    names = json.loads(origin.get("seeds", "null")) or range(len(tensors["image_projection"]))
    neurons = tensors["image_projection"].shape[2]
    rotations = [
        random_rotation(neurons, seeds.generator(settings.seed, "rotation", number))
        for number in range(settings.rotations)
    ]
    rows: list[metrics.Row] = []
    for tower in ("image", "text"):
        for seed, matrix in zip(names, tensors[f"{tower}_projection"], strict=True):
            try:
                found = measures(matrix, settings.bins) + spectral_rows(matrix, rotations)
                if settings.map_bins and seed == names[0]:
                    found += map_rows(matrix, settings.map_bins)
            except ValueError as error:
                where = f"{projection}: {tower} tower, seed {seed}"
                raise files.UserError(f"{where}: {error}.") from error
            rows += [{"tower": tower, "seed": seed, **row} for row in found]
            log.info("%s tower, seed %s: mean |cos| %.4f", tower, seed, found[0]["value"])
    metrics.write_metrics(purity, rows, {"projection": origin})
