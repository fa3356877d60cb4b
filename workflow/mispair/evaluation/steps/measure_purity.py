"""Measure how much the neurons of both projections overlap."""

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    rotations: int = Field(
        100, ge=0, description="Randomly rotated bases: the null of mean |cos| and shape ratio."
    )
    seed: int = Field(0, ge=0, description="Seed of the random rotations.")


def run(settings: Settings, *, projection: Path, covariance: Path | None, purity: Path) -> None:
    """Write purity, spectrum and null of every seed's projections.

    The correlation of activations needs the covariance of the features. Fine-tuned projections also
    have the logit scale and cosine gap.
    """
    from mispair.core import files, metrics
    from mispair.evaluation.inputs import naming, read_projections
    from mispair.evaluation.purity import measures, random_rotations, spectral_rows
    from mispair.towers.projection_measures import mean_abs_correlation, temperature_rows

    arm = read_projections(projection)
    covariances, metadata = files.read_tensors(covariance) if covariance else ({}, arm.origin)
    if metadata.get("towers") != arm.towers:
        raise files.UserError(
            f"{covariance}: is of other towers than the projections. Delete the file that is out "
            "of date, and run again."
        )
    rotations = random_rotations(arm.neurons, settings.rotations, settings.seed)
    rows: list[metrics.Row] = []
    for tower in ("image", "text"):
        for seed, matrix in zip(arm.seeds, arm.tensors[f"{tower}_projection"], strict=True):
            with naming(f"{projection}: {tower} tower, seed {seed}"):
                results = measures(matrix) + spectral_rows(matrix, rotations)
                if (of_features := covariances.get(f"{tower}_covariance")) is not None:
                    value = mean_abs_correlation(matrix, of_features)
                    results.append({"metric": "mean_abs_correlation", "value": value})
            rows += [{"tower": tower, "seed": seed, **row} for row in results]
            log.info("%s tower, seed %s: mean |cos| %.4f", tower, seed, results[0]["value"])
    rows += temperature_rows(arm.tensors, arm.seeds)
    metrics.write_metrics(purity, rows, {"projection": arm.origin})
