"""Fit a linear probe on the training split of every evaluation set; score it on the test split."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from mispair.core import settings
from mispair.core.settings import command_line
from mispair.towers.arms import AnyStart

if TYPE_CHECKING:
    import numpy as np

    from mispair.core.metrics import Row

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    starts: list[AnyStart] = settings.sweep(
        ["untouched", "pretrained"], description="Arms that are probed, on every evaluation set "
        "with a training split. An empty list fits no probes.",
    )  # fmt: skip
    C: float | None = Field(
        30.0, gt=0,
        description="Inverse strength of scikit-learn's penalty; null chooses from the grid by "
        "cross-validation. Embeddings of length one need more than the usual 1.",
    )  # fmt: skip
    grid: list[Annotated[float, Field(gt=0)]] = Field(
        [1.0, 10.0, 100.0, 1000.0], min_length=1, description="Values tried if C is null."
    )
    folds: int = Field(5, ge=2, description="Folds of the cross-validation, stratified by class.")
    max_iter: int = Field(1000, ge=1, description="Most iterations of L-BFGS for a fit.")
    seeds: int = Field(1, ge=1, description="Number of fine-tuning seeds probed, from the first.")
    seed: int = Field(0, ge=0, lt=2**32, description="Seed of the folds.")


def run(
    settings: Settings, *, projection: Path, train: list[Path], images: list[Path], probe: Path
) -> None:
    """Write the accuracy of every set and seed.

    Files of a set's two splits are in one folder. Sets without a training split are left out, and
    those that a former job fitted in the same way are not fitted again.
    """
    from functools import partial

    from mispair.core import files, metrics
    from mispair.core.progress import Progress
    from mispair.core.provenance import code_version, file_digest
    from mispair.core.reuse import Parts
    from mispair.evaluation.inputs import naming, read_projections

    arm = read_projections(projection)
    tests = {path.parent: path for path in images}
    rows: list[metrics.Row] = []
    sets, probed = {}, arm.of_seeds(settings.seeds)
    code = code_version("fit_linear_probe")
    kept = Parts(probe, [probe.name, command_line(settings), file_digest(projection), *code])
    with Progress("fitting probes", len(train), "sets") as progress:
        progress.reach(0)
        for path in train:
            if (test := tests.get(path.parent)) is None:
                folder = path.parent
                raise files.UserError(f"{path}: there are no test images of this set, {folder}.")
            (fit, fit_metadata), (held_out, metadata) = map(files.read_tensors, (path, test))
            if "labels" not in fit or "labels" not in held_out:
                raise files.UserError(f"{path}: has no labels, or {test} has none.")
            sets[fit_metadata["name"]] = {"train": fit_metadata, "test": metadata}
            with naming(f"{path} with {test} and {projection}"):
                task = partial(
                    _fit, settings, probed, fit, held_out, fit_metadata["name"],
                    metadata["images_fingerprint"],
                )  # fmt: skip
                rows += kept.measured(file_digest(path) + file_digest(test), task)[0]
            progress.advance()
    metrics.write_metrics(probe, rows, {"projection": arm.origin, "evaluation_sets": sets})
    kept.replace()


def _fit(
    settings: Settings,
    probed: list[tuple[int, np.ndarray, np.ndarray]],
    fit: Mapping[str, np.ndarray],
    held_out: Mapping[str, np.ndarray],
    name: str,
    fingerprint: str,
) -> tuple[list[Row], dict[str, np.ndarray]]:
    """Return the accuracies of a set for each seed, and no arrays."""
    from mispair.core import seeds
    from mispair.evaluation.classification import embed
    from mispair.evaluation.classification import probe as probe_of

    folds = seeds.integer(settings.seed, "fit-linear-probe", name) % 2**32
    rows = []
    for seed, image, _ in probed:
        learnt, test_split = ((embed(split["image_features"], image), split["labels"])
                              for split in (fit, held_out))  # fmt: skip
        (accuracy, recall), complaints = probe_of(
            learnt, test_split, settings.C, settings.grid, settings.folds, folds, settings.max_iter
        )
        for complaint in complaints:
            log.warning("%s, seed %s: scikit-learn: %s", name, seed, complaint)
        keys = {"evaluation_set": name, "protocol": "linear-probe", "seed": seed}
        keys["fingerprint"] = fingerprint
        rows += [{**keys, **row} for row in (accuracy, recall)]
        log.info("%s, seed %s: %.4f (C = %g)", name, seed, accuracy["value"], accuracy["C"])
    return rows, {}
