"""Settings of the two-layer networks, and the quick profile of what is trained."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from mispair.core import settings
from mispair.stepsize.grid import Part, refuse_repeated

QUICK: list[dict[str, Any]] = [
    {"part": "sweep", "data_set": "xor4", "stepsizes": [16, 32, 64, 96], "seeds": 2,
     "steps": 3000},
    {"part": "sweep", "data_set": "xor_noise", "activations": ["softplus"],
     "stepsizes": [32, 128, 256, 512], "steps": 2000},
    {"part": "sweep", "data_set": "digits_parity", "activations": ["softplus"], "widths": [40],
     "stepsizes": [16, 32, 64, 96], "seeds": 2, "steps": 1500},
    {"part": "sweep", "data_set": "digits_3v8", "widths": [40], "stepsizes": [64, 256, 512],
     "steps": 1500},
    {"part": "sharpness", "data_set": "xor4", "stepsizes": [16, 40, 64, 96], "steps": 1000},
    {"part": "onset", "data_set": "xor4", "stepsizes": [16, 64], "per_octave": 4, "steps": 1000},
    {"part": "activations", "data_set": "xor4", "activations": ["softplus", "gelu",
     "leaky_softplus", "leaky_gelu"], "stepsizes": [8, 32, 64], "steps": 2000},
    {"part": "widths", "data_set": "xor4", "widths": [4, 20, 100], "stepsizes": [16, 64],
     "steps": 2000},
    {"part": "bounds", "data_set": "two_point", "widths": [10], "stepsizes": [16, 64, 256],
     "steps": 10000},
    {"part": "acceleration", "data_set": "two_point", "widths": [10], "stepsizes": [1, 256],
     "per_octave": 4, "steps": 10000},
    {"part": "neurons", "data_set": "five_point", "activations": ["half_softplus"], "widths": [2],
     "stepsizes": [1.5], "steps": 30000},
]  # fmt: skip
"""The quick profile: every measurement of the study, in half a minute of one core."""


class TwoLayerSettings(settings.Settings):
    """Settings of `train_two_layer`."""

    grid: list[Part] = settings.sweep(
        [Part.model_validate(part) for part in QUICK],
        min_length=1,
        description="Parts of the study, each with `part` (sweep, sharpness, onset, activations, "
        "widths, bounds, acceleration, neurons), `data_set`, `activations`, `widths`, "
        "`stepsizes` (η; with `per_octave` the ends of a geometric ladder), `seeds` and `steps`.",
    )
    cifar_dir: Annotated[str | None, settings.Located()] = settings.sweep(
        None,
        description="Folder cifar-10-batches-bin of CIFAR-10's binary release, for parts of the "
        "data set cifar2; null leaves these out.",
    )
    points: int = Field(60, ge=10, le=200, description="Points of a curve, on a log scale.")
    sharpness_first: int = Field(
        100, ge=0, description="First steps; the sharpness is measured at each of them."
    )
    sharpness_points: int = Field(
        60, ge=2, description="Later steps, on a log scale, at which the sharpness is measured."
    )
    risk_levels: list[Annotated[float, Field(gt=0)]] = Field(
        [0.1, 0.05, 0.01, 0.002, 0.001],
        min_length=1,
        description="Risk levels; the steps to each are counted.",
    )
    budgets: list[Annotated[int, Field(ge=1)]] = Field(
        [100, 200, 500, 1000, 2000, 5000, 10000, 20000],
        min_length=1,
        description="Numbers of steps T at which the acceleration is measured.",
    )

    @model_validator(mode="after")
    def _different_parts(self) -> TwoLayerSettings:
        refuse_repeated(self.grid)
        return self
