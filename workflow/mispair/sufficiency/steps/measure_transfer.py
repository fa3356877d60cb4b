"""Measure all heads of one training on common samples, next to belief propagation."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

from pydantic import Field

from mispair.core import settings
from mispair.sufficiency.names import OF_ENCODERS, TASKS, Flip

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    samples: int = Field(3_000, ge=100, description="Pairs that each risk is a mean over.")
    test_flips: list[Flip] = Field(
        [0.02, 0.2, 0.4],
        description="Flip probabilities of shifted tests, of both trees and of the predicted one "
        "alone; [] for none.",
    )
    shifted_from: float | None = Field(
        0.2, ge=0, le=1, description="Flip probability of the heads tested so; null for all."
    )
    precision: Literal["float32", "float64"] = Field(
        "float32", description="Number format of belief propagation."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where it is computed; auto takes a GPU when there is one."
    )


def run(
    settings: Settings, *, trees: Path, flip: float, seed: int, encoders: list[Path],
    heads: list[Path], transfer: Path,
) -> None:  # fmt: skip
    """Write risks of every head, and their differences from references, sample by sample.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    trees : Path
        Of draw_trees.
    flip : float
        At which the heads were trained.
    seed : int
        Of their training, and of the samples.
    encoders : list of Path
        The standard encoders, if a head reads them.
    heads : list of Path
        Of train_head, of one or both tasks.
    transfer : Path
        Written: metrics rows.
    """
    from mispair.core.metrics import write_metrics
    from mispair.sufficiency import artefacts
    from mispair.sufficiency.measures import UNCONDITIONAL, Setting
    from mispair.sufficiency.measures import transfer as measured

    device = artefacts.prepared(settings.device)
    dtype = artefacts.dtype_of(settings.precision)
    skeletons, metadata = artefacts.read_trees(trees)
    artefacts.refuse_too_many_samples(
        "measure_transfer", skeletons.size, settings.samples, device, dtype
    )
    setting = Setting(skeletons, flip, seed, device, dtype)
    read = [artefacts.read_head(path, skeletons, device) for path in heads]
    towers = {
        trained: artefacts.read_towers(encoders[0], device, trained)[0] if encoders else None
        for trained in (True, False)
    }
    flips = settings.test_flips if settings.shifted_from in (None, flip) else []
    references = (UNCONDITIONAL, "untrained", "oracle", "joint")
    rows = []
    for task in TASKS:
        losses = {
            which["arm"]: (head, towers[which["arm"] != "untrained"]
                           if which["arm"] in OF_ENCODERS else None)
            for head, which in read if which["task"] == task
        }  # fmt: skip
        if losses:
            noise = next(float(which["noise"]) for _, which in read)
            rows += measured(setting, task, losses, settings.samples, noise, flips, references)  # type: ignore[arg-type]
    keys = {**artefacts.which(metadata), "flip": flip, "seed": seed}
    provenance = {"settings": settings.model_dump(), "trees": metadata, "device": device}
    write_metrics(transfer, [{**keys, **row} for row in rows], provenance)
    log.info("p = %g, seed %d: %d rows of %d heads", flip, seed, len(rows), len(heads))
