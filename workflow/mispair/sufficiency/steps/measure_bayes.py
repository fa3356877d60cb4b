"""Measure the least possible risks, by belief propagation with and without the other tree."""

import logging
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from mispair.core import settings
from mispair.sufficiency.settings import Flip, Measuring

log = logging.getLogger(__name__)


class Settings(Measuring):
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
    samples: int = Field(10_000, ge=100, description="Pairs over which each risk is averaged.")
    candidates: int = Field(4, ge=2, description="Candidates K of the contrastive risk.")
    noise: float = Field(
        1.0, gt=0, description="Standard deviation of the image's noise (conditional denoising)."
    )


def run(settings: Settings, *, trees: Path, bayes: Path) -> None:
    """Write the risks of all four tasks at every flip probability."""
    from mispair.core.files import UserError
    from mispair.core.metrics import write_metrics
    from mispair.sufficiency.measures import bayes_risks, read_setting, tree_columns

    if settings.candidates > settings.samples:
        raise UserError(
            f"measure_bayes.candidates: {settings.candidates} are more than the "
            f"{settings.samples} samples."
        )
    first, metadata = read_setting(
        "measure_bayes", settings, trees, settings.flips[0], None, settings.samples
    )
    rows = []
    for flip in settings.flips:
        setting = replace(first, flip=flip)
        risks = bayes_risks(setting, settings.samples, settings.candidates, settings.noise)
        rows += [{**tree_columns(metadata), "flip": flip, **row} for row in risks]
        log.info("p = %g: %s", flip, {f"{row['task']} {row['arm']}": round(row["value"], 4)
                                      for row in risks if row["metric"] == "risk"})  # fmt: skip
    write_metrics(bayes, rows, {"settings": settings.model_dump(), "trees": metadata})
