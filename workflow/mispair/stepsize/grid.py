"""What is trained: parts of the study, each a data set with activations, widths and stepsizes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, model_validator

from mispair.core import settings

PartName = Literal[
    "sweep", "sharpness", "onset", "activations", "widths", "bounds", "acceleration", "neurons"
]
DataSetName = Literal[
    "xor4", "xor_noise", "digits_parity", "digits_3v8", "two_point", "five_point", "cifar2"
]
ActivationName = Literal[
    "softplus", "gelu", "silu", "huber_relu", "leaky_softplus", "leaky_gelu", "leaky_silu",
    "leaky_huber_relu", "half_softplus",
]  # fmt: skip

Stepsize = Annotated[float, Field(gt=0)]


class Part(settings.Settings):
    """A part of the study on one data set: every activation is a separate job."""

    part: PartName = Field(
        description="What the runs are for: sweep (phases, margins, speed), sharpness (measured on "
        "the way), onset (of oscillation, on a fine ladder), activations, widths, bounds (next to "
        "the theory's), acceleration (T budgets), neurons (margins of each)."
    )
    data_set: DataSetName = Field(description="What is learned; cifar2 needs cifar_dir.")
    activations: list[ActivationName] = Field(
        ["leaky_softplus"], min_length=1, description="Activations φ."
    )
    widths: list[Annotated[int, Field(ge=1, le=2000)]] = Field(
        [20], min_length=1, description="Numbers of neurons m."
    )
    stepsizes: list[Stepsize] = Field(
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
        for name in ("activations", "widths", "stepsizes"):
            values = getattr(self, name)
            if repeated := sorted({str(value) for value in values if values.count(value) > 1}):
                raise ValueError(f"{name}: {', '.join(repeated)} is listed twice")
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


def refuse_repeated(parts: Iterable[Part]) -> None:
    """Refuse two parts of one name, data set and activation: their results would be one file.

    Raises
    ------
    ValueError
        Naming the two.
    """
    seen = set()
    for part in parts:
        for activation in part.activations:
            key = (part.part, part.data_set, activation)
            if key in seen:
                raise ValueError(f"the part {', '.join(key)} is listed twice: join the two")
            seen.add(key)
