"""Measure how much the neurons of both projections overlap."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from mispair.core import settings

if TYPE_CHECKING:
    import numpy as np

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


def run(settings: Settings, *, projection: Path, covariance: Path | None, purity: Path) -> None:
    """Write purity, spectrum, histogram and null of every seed's projections.

    The heat map is of the first seed alone. With the covariance of the features, the correlation
    of activations is measured, too; of fine-tuned projections the logit scale and cosine gap.
    """
    from mispair.core import files, metrics, seeds
    from mispair.evaluation.overlap_spectrum import spectral_rows
    from mispair.evaluation.purity import map_rows, measures, random_rotation
    from mispair.towers.activation_overlap import mean_abs_correlation
    from mispair.towers.logit_scale import temperature_rows

    tensors, origin = files.read_tensors(projection)
    metrics_of_features = _covariances(covariance, origin)
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
                results = measures(matrix, settings.bins) + spectral_rows(matrix, rotations)
                if tower in metrics_of_features:
                    value = mean_abs_correlation(matrix, metrics_of_features[tower])
                    results.append({"metric": "mean_abs_correlation", "value": value})
                if settings.map_bins and seed == names[0]:
                    results += map_rows(matrix, settings.map_bins)
            except ValueError as error:
                where = f"{projection}: {tower} tower, seed {seed}"
                raise files.UserError(f"{where}: {error}.") from error
            rows += [{"tower": tower, "seed": seed, **row} for row in results]
            log.info("%s tower, seed %s: mean |cos| %.4f", tower, seed, results[0]["value"])
    rows += temperature_rows(tensors, names)
    metrics.write_metrics(purity, rows, {"projection": origin})


def _covariances(path: Path | None, origin: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Return the covariance of the features of each tower, if a file of them is given."""
    from mispair.core import files

    if path is None:
        return {}
    tensors, metadata = files.read_tensors(path)
    if metadata.get("towers") != origin.get("towers"):
        raise files.UserError(
            f"{path}: is of other towers than the projections. Delete the file that is out of "
            "date, and run again."
        )
    return {name.removesuffix("_covariance"): values for name, values in tensors.items()}
