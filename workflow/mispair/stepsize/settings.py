"""Settings of the two-layer networks: the parts of the study and their quick profile."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from mispair.core import settings

PartName = Literal["sweep", "onset", "activations", "widths", "bounds", "acceleration"]
DataSetName = Literal[
    "xor4", "xor_noise", "digits_parity", "digits_3v8", "two_point", "five_point", "cifar2"
]
ActivationName = Literal[
    "softplus", "gelu", "silu", "huber_relu", "leaky_softplus", "leaky_gelu", "leaky_silu",
    "leaky_huber_relu", "half_softplus",
]  # fmt: skip


class Part(settings.Settings):
    """A part of the study on one data set: every activation is a separate job."""

    part: PartName = Field(
        description="What the runs are for: sweep (phases, margins, speed), onset (of oscillation, "
        "on a fine ladder), activations, widths, bounds (next to the theory's), acceleration (T "
        "budgets)."
    )
    data_set: DataSetName = Field(description="What is learned; cifar2 needs cifar_dir.")
    activations: list[ActivationName] = Field(
        ["leaky_softplus"], min_length=1, description="Activations φ."
    )
    widths: list[Annotated[int, Field(ge=1, le=2000)]] = Field(
        [20], min_length=1, description="Numbers of neurons m."
    )
    stepsizes: list[Annotated[float, Field(gt=0)]] = Field(
        min_length=1,
        description="Stepsizes η; the step on the weights is m η, so η compares between widths.",
    )
    per_octave: int | None = Field(
        None,
        ge=1,
        description="Stepsizes in each doubling, where `stepsizes` names only the first and last "
        "of a geometric ladder; null: `stepsizes` is the whole list.",
    )
    seeds: int = Field(1, ge=1, description="Number of seeds 0, 1, ...: first weights and split.")
    steps: int = Field(ge=10, description="Steps of gradient descent T.")

    @model_validator(mode="after")
    def _is_a_ladder(self) -> Part:
        if self.per_octave is not None and (
            len(self.stepsizes) != 2 or self.stepsizes[0] >= self.stepsizes[1]
        ):
            raise ValueError(
                "with per_octave, stepsizes are the first and the last, such as [1, 1024]"
            )
        return self

    @property
    def ladder(self) -> list[float]:
        """Every stepsize, in increasing order.

        Examples
        --------
        >>> Part(part="onset", data_set="xor4", stepsizes=[1, 3], per_octave=1, steps=10).ladder
        [1.0, 2.0]
        """
        if self.per_octave is None:
            return sorted(self.stepsizes)
        first, last = self.stepsizes
        stepsizes, k = [], 0
        while (value := first * 2 ** (k / self.per_octave)) <= last * (1 + 1e-12):
            stepsizes.append(value)
            k += 1
        return stepsizes


QUICK: list[dict[str, Any]] = [
    {"part": "sweep", "data_set": "xor4", "stepsizes": [16, 32, 64, 96], "seeds": 2,
     "steps": 3000},
    {"part": "sweep", "data_set": "xor_noise", "activations": ["softplus"],
     "stepsizes": [32, 128, 256, 512], "steps": 2000},
    {"part": "sweep", "data_set": "digits_parity", "activations": ["softplus"], "widths": [40],
     "stepsizes": [16, 32, 64, 96], "seeds": 2, "steps": 1500},
    {"part": "sweep", "data_set": "digits_3v8", "widths": [40], "stepsizes": [64, 256, 512],
     "steps": 1500},
    {"part": "onset", "data_set": "xor4", "stepsizes": [16, 64], "per_octave": 4, "steps": 1000},
    {"part": "activations", "data_set": "xor4", "activations": ["softplus", "gelu",
     "leaky_softplus", "leaky_gelu"], "stepsizes": [8, 32, 64], "steps": 2000},
    {"part": "widths", "data_set": "xor4", "widths": [4, 20, 100], "stepsizes": [16, 64],
     "steps": 2000},
    {"part": "bounds", "data_set": "two_point", "widths": [10], "stepsizes": [16, 64, 256],
     "steps": 10000},
    {"part": "acceleration", "data_set": "two_point", "widths": [10], "stepsizes": [1, 256],
     "per_octave": 4, "steps": 10000},
    {"part": "bounds", "data_set": "five_point", "activations": ["half_softplus"], "widths": [2],
     "stepsizes": [1.5], "steps": 30000},
]  # fmt: skip
"""The quick profile: every measurement of the study, in half a minute of one core."""


class TwoLayerSettings(settings.Settings):
    """Settings of `train_two_layer`."""

    grid: list[Part] = settings.sweep(
        [Part.model_validate(part) for part in QUICK],
        min_length=1,
        description="Parts of the study, each with `part` (sweep, onset, activations, widths, "
        "bounds, acceleration), `data_set`, `activations`, `widths`, `stepsizes` (η; with "
        "`per_octave` the ends of a geometric ladder), `seeds` and `steps`.",
    )
    cifar_dir: Annotated[str | None, settings.Located()] = settings.sweep(
        None,
        description="Folder cifar-10-batches-bin of CIFAR-10's binary release, for parts of the "
        "data set cifar2; null leaves these out.",
    )
    points: int = Field(60, ge=10, le=200, description="Points of a curve, on a log scale.")
    budgets: list[Annotated[int, Field(ge=1)]] = Field(
        [100, 200, 500, 1000, 2000, 5000, 10000, 20000],
        min_length=1,
        description="Numbers of steps T at which the acceleration is measured.",
    )

    @model_validator(mode="after")
    def _different_parts(self) -> TwoLayerSettings:
        seen = set()
        for part in self.grid:
            for activation in part.activations:
                key = (part.part, part.data_set, activation)
                if key in seen:  # their results would be one file
                    raise ValueError(f"the part {', '.join(key)} is listed twice: join the two")
                seen.add(key)
        return self
