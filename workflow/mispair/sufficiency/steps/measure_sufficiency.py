"""Measure what contrastive encoders know: risk, sufficiency, root, zero-shot classes."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mispair.core import settings
from mispair.sufficiency.names import Flip

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    samples: int = Field(5_000, ge=100, description="Pairs that risks and divergences are of.")
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
    information_steps: int = Field(
        300, ge=1, description="Steps of the perceptron that reads the root out of a feature."
    )
    test_flips: list[Flip] = Field(
        [0.02, 0.2, 0.4], description="Flip probabilities of shifted tests; [] for none."
    )
    shifted_from: float | None = Field(
        0.2, ge=0, le=1, description="Flip probability of the encoders tested so; null for all."
    )
    precision: Literal["float32", "float64"] = Field(
        "float32", description="Number format of belief propagation."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where it is computed; auto takes a GPU when there is one."
    )

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

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    trees : Path
        Of draw_trees.
    flip : float
        At which the encoders were trained.
    seed : int
        Of their training, and of the samples.
    encoders : list of Path
        Of train_encoders, the standard ones first.
    sufficiency : Path
        Written: metrics rows.
    """
    from mispair.core.metrics import write_metrics
    from mispair.sufficiency import artefacts, measures
    from mispair.sufficiency.encoders import UNTRAINED

    device = artefacts.prepared(settings.device)
    dtype = artefacts.dtype_of(settings.precision)
    skeletons, metadata = artefacts.read_trees(trees)
    number = max(settings.samples, settings.classified)
    artefacts.refuse_too_many_samples("measure_sufficiency", skeletons.size, number, device, dtype)
    towers = {}
    for path in encoders:
        model, which = artefacts.read_towers(path, device)
        towers[which["variant"]] = model
    towers[UNTRAINED], _ = artefacts.read_towers(encoders[0], device, trained=False)
    setting = measures.Setting(skeletons, flip, seed, device, dtype)
    rows = measures.contrastive(setting, towers, settings.samples, settings.candidates)
    rows += measures.root_information(setting, towers, settings.samples, settings.information_steps)
    rows += measures.classification(setting, towers, settings.classified, settings.per_class)
    if settings.test_flips and settings.shifted_from in (None, flip):
        trained = {arm: tower for arm, tower in towers.items() if arm != UNTRAINED}
        rows += measures.shifted_contrastive(
            setting, trained, settings.samples, min(settings.candidates), settings.test_flips
        )
        rows += measures.shifted_classification(
            setting, trained, settings.classified, max(settings.per_class), settings.test_flips
        )
    keys = {**artefacts.which(metadata), "flip": flip, "seed": seed}
    provenance = {"settings": settings.model_dump(), "trees": metadata, "device": device}
    write_metrics(sufficiency, [{**keys, **row} for row in rows], provenance)
    log.info("p = %g, seed %d: %d rows of %s", flip, seed, len(rows), ", ".join(towers))
