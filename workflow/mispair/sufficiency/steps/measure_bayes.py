"""Measure the least risks that there are, by belief propagation with and without the other tree."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

from pydantic import Field

from mispair.core import settings
from mispair.sufficiency.names import Flip

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    flips: list[Flip] = Field(
        [0.02, 0.1, 0.2, 0.3, 0.4],
        min_length=1,
        description="Flip probabilities p, of both trees: how often a child does not follow its "
        "level's permutation.",
    )
    published: bool = settings.sweep(
        True,
        description="Whether the published size and trees are measured too, for every "
        "size of the study: a check that needs no training.",
    )
    samples: int = Field(10_000, ge=100, description="Pairs that each risk is a mean over.")
    candidates: int = Field(4, ge=2, description="Candidates K of the contrastive risk.")
    noise: float = Field(
        1.0, gt=0, description="Standard deviation of the image's noise (conditional denoising)."
    )
    precision: Literal["float32", "float64"] = Field(
        "float32", description="Number format of belief propagation."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where it is computed; auto takes a GPU when there is one."
    )


def run(settings: Settings, *, trees: Path, bayes: Path) -> None:
    """Write the risks of all four tasks at every flip probability.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    trees : Path
        Of draw_trees.
    bayes : Path
        Written: metrics rows.
    """
    from mispair.core.files import UserError
    from mispair.core.metrics import write_metrics
    from mispair.sufficiency import artefacts
    from mispair.sufficiency.enumeration import SMALL, errors
    from mispair.sufficiency.measures import Setting, bayes_risks

    if settings.candidates > settings.samples:
        raise UserError(
            f"measure_bayes.candidates: {settings.candidates} are more than the "
            f"{settings.samples} samples."
        )
    device = artefacts.prepared(settings.device)
    dtype = artefacts.dtype_of(settings.precision)
    skeletons, metadata = artefacts.read_trees(trees)
    artefacts.refuse_too_many_samples(
        "measure_bayes", skeletons.size, settings.samples, device, dtype
    )
    rows = []
    for flip in settings.flips:
        setting = Setting(skeletons, flip, int(metadata["tree"]), device, dtype)
        risks = bayes_risks(setting, settings.samples, settings.candidates, settings.noise)
        tree = int(metadata["tree"])
        rows += [{**artefacts.which(metadata), "flip": flip, **row} for row in risks]
        rows += [
            {"size": str(SMALL), "tree": tree, "flip": flip, "task": task, "arm": "bayes",
             "metric": "enumeration_error", "value": value}
            for task, value in errors(flip, tree, settings.noise, dtype).items()
        ]  # fmt: skip
        log.info("p = %g: %s", flip, {f"{row['task']} {row['arm']}": round(row["value"], 4)
                                      for row in risks if row["metric"] == "risk"})  # fmt: skip
    write_metrics(bayes, rows, {"settings": settings.model_dump(), "trees": metadata})
