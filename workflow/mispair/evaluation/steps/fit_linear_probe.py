"""Fit a linear probe on the training split of every evaluation set and score it on the test."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mispair.core import settings
from mispair.towers.arms import AnyStart

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    starts: list[AnyStart] = settings.sweep(
        ["untouched", "pretrained"],
        description="Arms that are probed, on every evaluation set with a training split; none "
        "for no probes.",
    )
    C: float | None = Field(
        30.0,
        gt=0,
        description="Inverse strength of scikit-learn's penalty; none chooses from the grid by "
        "cross-validation. Embeddings of length one ask for more than the usual 1.",
    )
    grid: list[Annotated[float, Field(gt=0)]] = Field(
        [1.0, 10.0, 100.0, 1000.0], min_length=1, description="Values tried where C is none."
    )
    folds: int = Field(5, ge=2, description="Folds of the cross-validation, stratified by class.")
    max_iter: int = Field(1000, ge=1, description="Most iterations of L-BFGS for a fit.")
    seeds: int = Field(1, ge=1, description="Fine-tuning seeds probed, the first ones.")
    seed: int = Field(0, ge=0, description="Seed of the folds.")


def run(
    settings: Settings, *, projection: Path, train: list[Path], images: list[Path], probe: Path
) -> None:
    """Write the accuracy of every set and seed.

    Files of a set's two splits are in one folder; sets of which only the test is given are left
    out.
    """
    from mispair.core import files, metrics, seeds
    from mispair.core.progress import Progress
    from mispair.evaluation import linear_probe
    from mispair.evaluation.zeroshot import embed

    tensors, origin = files.read_tensors(projection)
    stack = tensors["image_projection"]
    names = json.loads(origin.get("seeds", "null")) or range(len(stack))
    tests = {path.parent: path for path in images}
    rows: list[metrics.Row] = []
    sets = {}
    probed = list(zip(names, stack, strict=True))[: settings.seeds]
    progress = Progress("fitting probes", len(train) * len(probed), "sets and seeds")
    progress.reach(0)
    for path in train:
        if path.parent not in tests:
            raise files.UserError(f"{path}: there are no test images of this set, {path.parent}.")
        (fit, fit_metadata), (held_out, test_metadata) = map(
            files.read_tensors, (path, tests[path.parent])
        )
        if "labels" not in fit or "labels" not in held_out:
            raise files.UserError(f"{path}: has no labels, or {tests[path.parent]} has none.")
        name = fit_metadata["name"]
        classes = 1 + max(int(each["labels"].max(initial=0)) for each in (fit, held_out))
        sets[name] = {"train": fit_metadata, "test": test_metadata}
        folds = seeds.integer(settings.seed, "fit-linear-probe", name) % 2**32
        for seed, image in probed:
            try:
                fit_embeddings, new = (
                    embed(each["image_features"], image) for each in (fit, held_out)
                )
                chosen, complaints = settings.C, list[str]()
                if chosen is None:
                    chosen, complaints = linear_probe.best_c(
                        fit_embeddings, fit["labels"], settings.grid, settings.folds, folds,
                        settings.max_iter,
                    )  # fmt: skip
                result = linear_probe.probe(
                    fit_embeddings, fit["labels"], new, held_out["labels"], classes,
                    C=chosen, max_iter=settings.max_iter,
                )  # fmt: skip
            except ValueError as error:
                where = f"{path} with {tests[path.parent]} and {projection}"
                raise files.UserError(f"{where}: {error}.") from error
            for complaint in [*complaints, *result.complaints]:
                log.warning("%s, seed %s: scikit-learn: %s", name, seed, complaint)
            keys = {"evaluation_set": name, "protocol": "linear-probe", "seed": seed}
            keys["fingerprint"] = test_metadata["images_fingerprint"]
            rows += [{**keys, **row} for row in result.rows]
            log.info("%s, seed %s: %.4f (C = %g)", name, seed, result.rows[0]["value"], chosen)
            progress.advance()
    progress.close()
    metrics.write_metrics(probe, rows, {"projection": origin, "evaluation_sets": sets})
