"""Measure several pairs of towers alike: each is a replicate of the image-text study."""

import logging
from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictInt, field_validator

from mispair.core import settings
from mispair.core.settings import Located, sweep
from mispair.towers.dag import SHIPPED

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    towers: Annotated[list[Annotated[StrictInt, Field(ge=0)] | str], Located("|".join(SHIPPED))] = (
        sweep(
            [],
            description="Pairs of towers on which every arm is run and measured, as well as on "
            "`towers`: a name or folder as there, or a number, for towers that pretrain_towers "
            "trains with this seed on generated scenes. Intervals are over these pairs.",
        )
    )
    corpus_seed: int = Field(
        0, ge=0,
        description="make_scenes.seed of the scenes on which the numbered towers are trained. The "
        "corpus that is fine-tuned has another one, so that it is unseen.",
    )  # fmt: skip

    @field_validator("towers")
    @classmethod
    def _are_several(cls, towers: list[int | str]) -> list[int | str]:
        if len(towers) == 1:
            raise ValueError("one pair of towers gives no interval; list at least two, or none")
        return towers


def run(
    settings: Settings, *, purity: list[Path], zeroshot: list[Path], semantics: list[Path],
    comparison: Path,
) -> None:  # fmt: skip
    """Write each measure of each pair of towers: a number for each arm, the mean over its seeds."""
    from mispair.core import metrics
    from mispair.image_text import tower_replicates

    values = tower_replicates.values(purity, zeroshot, semantics)
    names = sorted(values["towers"].unique())
    log.info("%d pairs of towers: %s", len(names), ", ".join(names))
    origins = {"pairs_of_towers": names, "corpus_seed": settings.corpus_seed}
    rows = [dict(zip(values.columns, row, strict=True)) for row in values.itertuples(index=False)]
    metrics.write_metrics(comparison, rows, origins)
