"""Measure contrastive encoders: risk, sufficiency, zero-shot classes."""

import logging
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from mispair.sufficiency.settings import Measuring

log = logging.getLogger(__name__)


class Settings(Measuring):
    samples: int = Field(5_000, ge=100, description="Pairs for the risks and divergences.")
    candidates: list[Annotated[int, Field(ge=2)]] = Field(
        [4, 256],
        min_length=1,
        description="Candidates K: the risk is measured with each; the divergence grows with K.",
    )
    per_class: list[Annotated[int, Field(ge=1)]] = Field(
        [1, 2, 5, 10, 25, 50, 100, 250],
        min_length=1,
        description="Prompts M for each class in zero-shot classification.",
    )
    classified: int = Field(2_000, ge=100, description="Images that are classified.")

    @model_validator(mode="after")
    def _no_more_candidates_than_pairs(self) -> Self:
        if max(self.candidates) > self.samples:
            raise ValueError(
                f"candidates: {max(self.candidates)} are more than the {self.samples} samples to "
                "draw them from"
            )
        return self


def run(
    settings: Settings, *, trees: Path, flip: float, seed: int, encoders: list[Path],
    sufficiency: Path,
) -> None:  # fmt: skip
    """Write all measures of every variant on common samples, next to the untrained control.

    The standard `encoders` are the first; `flip` and `seed` are those of their training.
    """
    from mispair.sufficiency import measures
    from mispair.sufficiency.encoders import UNTRAINED, read_towers

    most = max(settings.samples, settings.classified)
    setting, metadata = measures.read_setting(
        "measure_sufficiency", settings, trees, flip, seed, most
    )
    read = (read_towers(path, setting.device) for path in encoders)
    trained = {about["variant"]: model for model, about in read}
    untrained, _ = read_towers(encoders[0], setting.device, trained=False)
    towers = {**trained, UNTRAINED: untrained}
    samples, images, prompts = settings.samples, settings.classified, settings.per_class
    rows = measures.contrastive(setting, towers, samples, settings.candidates)
    rows += measures.classification(setting, towers, images, prompts)
    measures.write_measures(sufficiency, rows, setting, settings, metadata)
    log.info("p = %g, seed %d: %d rows of %s", flip, seed, len(rows), ", ".join(towers))
