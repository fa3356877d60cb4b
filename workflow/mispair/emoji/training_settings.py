"""Settings of the verbs that train on emoji; nothing here imports a library that takes time."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from mispair.core.settings import Settings

Scale = Literal["frozen", "converged"]
SCALES: tuple[Scale, ...] = get_args(Scale)


class Joining(Settings):
    """How two towers are joined."""

    neurons: int = Field(128, ge=1, description="Width e of the embeddings.")
    epochs: int = Field(10, ge=1, description="Passes over the pairs.")
    image_size: int = Field(
        128, ge=1, description="Side of the pictures that the image tower sees, in pixels."
    )
    seed: int = Field(0, ge=0, description="Seed of the start and of the order of pairs.")


class Grid(Settings):
    """What is trained."""

    numbers: list[Annotated[int, Field(ge=1)]] = Field(
        [500, 1000, 2000, 4000, 1_000_000],
        min_length=1,
        description="Numbers of pairs; one above that of the corpus takes all.",
    )
    neurons: list[Annotated[int, Field(ge=1)]] = Field(
        [16, 32, 128, 512], min_length=1, description="Widths e of the embeddings."
    )
    scales: list[Scale] = Field(
        [*SCALES],
        min_length=1,
        description="Logit scale: frozen stays, converged is set to the minimum of the loss after "
        "each epoch.",
    )
    rates: list[Annotated[float, Field(ge=0, le=1)]] = Field(
        [0.0, 0.1, 0.3, 0.5, 0.8], min_length=1, description="Shuffle probabilities C_m, with 0."
    )
    seeds: int = Field(
        3,
        ge=1,
        description="Independent runs of each, with their own model, pairs, swaps and order of "
        "batches.",
    )
    steps: int = Field(390, ge=1, description="Batches of each fine-tuning, at least.")
    epochs: int = Field(
        Joining().epochs,
        ge=1,
        description="Passes over all pairs of the models that fine-tuning starts from.",
    )
