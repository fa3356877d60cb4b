"""Settings that steps of the study share, what they mean for one model, and sizes of trees."""

from __future__ import annotations

import re
from typing import Annotated, Literal, NamedTuple, Self, get_args

from pydantic import Field, model_validator

from mispair.core import settings
from mispair.core.devices import MEMORY_SHARE, free_memory
from mispair.core.files import UserError

# Names of trainings and tasks, for settings and rules as well: this module loads quickly.

Flip = Annotated[float, Field(ge=0, le=1)]
"""A flip probability p."""

Variant = Literal["standard", "guided", "shallow"]
"""Variants of contrastive encoders."""

Task = Literal["cdm", "vlm"]
"""Conditional denoising, and next-word prediction by vision and language."""

Arm = Literal["frozen", "shallow", "untrained", "oracle", "joint"]
"""What a head reads of the other modality: see `mispair.sufficiency.heads`."""

VARIANTS: tuple[Variant, ...] = get_args(Variant)
TASKS: tuple[Task, ...] = get_args(Task)
ARMS: tuple[Arm, ...] = get_args(Arm)

OF_ENCODERS: tuple[Arm, ...] = ("frozen", "shallow", "untrained")
"""Arms whose heads read a contrastive encoder."""


class Computing(settings.Settings):
    """Settings of every step that computes on a device."""

    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where to compute; auto takes a GPU when there is one."
    )


class TrainingSettings(Computing):
    """Settings of encoders and of heads."""

    width: int = Field(32, ge=1, description="Width of a token; for heads at least symbols.")
    blocks: int = Field(3, ge=1, description="Blocks of each transformer.")
    shallow_blocks: int = Field(1, ge=1, description="Blocks of each shallow transformer.")
    lr: float = Field(3e-3, gt=0, description="First step size of AdamW; it falls along a cosine.")
    last_lr_share: float = Field(
        1e-3, ge=0, le=1, description="Last step size, as a share of the first."
    )
    weight_decay: float = Field(1e-3, ge=0, description="Decay of all weights.")
    clip: float = Field(1.0, gt=0, description="Largest norm of a gradient.")


class EncoderSettings(TrainingSettings):
    """Settings of `train_encoders`."""

    flips: list[Flip] = settings.sweep(
        [0.2],
        min_length=1,
        description="Flip probabilities p at which encoders are trained, of both trees.",
    )
    variants: list[Variant] = settings.sweep(
        ["standard"],
        min_length=1,
        description="standard; guided (its blocks are shown the messages of belief propagation); "
        "shallow (shallow_blocks).",
    )
    variants_flips: list[Flip] | None = settings.sweep(
        None,
        description="Flip probabilities at which variants other than standard are trained; null "
        "for all.",
    )
    seeds: list[int] = settings.sweep(
        [0],
        min_length=1,
        description="Seeds of the weights and pairs, of encoders and of the heads that read them.",
    )
    steps: int = Field(400, ge=1, description="Batches of fresh pairs.")
    batch_size: int = Field(64, ge=2, description="Pairs of a batch.")
    candidates: int | None = Field(
        None,
        ge=2,
        description="Candidates K for each pair, the match among them: other pairs of the batch; "
        "null for the whole batch.",
    )
    guided_lr: float | None = Field(
        None, gt=0, description="First step size of the guided encoders; null for lr."
    )
    guidance_weight: float = Field(
        1e-3, ge=0, description="Weight of the guided encoders' distance to the messages."
    )

    @model_validator(mode="after")
    def _no_more_candidates_than_pairs(self) -> Self:
        if self.candidates is not None and self.candidates > self.batch_size:
            raise ValueError(
                f"candidates: {self.candidates} are more than the batch_size of {self.batch_size} "
                "to draw them from"
            )
        return self

    def blocks_of(self, variant: str) -> int:
        """Return the number of blocks of each encoder."""
        return self.shallow_blocks if variant == "shallow" else self.blocks

    def lr_of(self, variant: str) -> float:
        """Return the first step size."""
        return (self.guided_lr if variant == "guided" else None) or self.lr

    def guidance_of(self, variant: str) -> float:
        """Return the weight of the distance to the messages; 0 without guidance."""
        return self.guidance_weight if variant == "guided" else 0.0


class HeadSettings(TrainingSettings):
    """Settings of `train_head`."""

    flips: list[Flip] = settings.sweep(
        [0.2], min_length=1, description="Flip probabilities p at which heads are trained."
    )
    tasks: list[Task] = settings.sweep(
        ["cdm", "vlm"],
        min_length=1,
        description="cdm: denoise an image given its text; vlm: the next word given an image.",
    )
    arms: list[Arm] = settings.sweep(
        ["frozen", "untrained"],
        description="What a head reads of the other modality: the standard encoder's feature "
        "(frozen; shallow has a head of shallow_blocks), that of the encoder before it was trained "
        "(untrained), the exact posterior (oracle), or all leaves (joint).",
    )
    vlm_width: int | None = Field(
        None, ge=1, description="Width of a token for the next word; null for width."
    )
    steps: int = Field(200, ge=1, description="Batches of fresh pairs.")
    batch_size: int = Field(128, ge=1, description="Pairs of a batch.")
    joint_vlm_lr: float | None = Field(
        None, gt=0, description="First step size of the joint next word; null for lr."
    )
    noise: float = Field(1.0, gt=0, description="Standard deviation of the image's noise.")

    def width_of(self, task: str) -> int:
        """Return the width of a token."""
        return (self.vlm_width if task == "vlm" else None) or self.width

    def blocks_of(self, arm: str) -> int:
        """Return the number of blocks of a head."""
        return self.shallow_blocks if arm == "shallow" else self.blocks

    def lr_of(self, task: str, arm: str) -> float:
        """Return the first step size."""
        return (self.joint_vlm_lr if (task, arm) == ("vlm", "joint") else None) or self.lr


class Measuring(Computing):
    """Settings of every step that measures."""

    precision: Literal["float32", "float64"] = Field(
        "float32", description="Number format of belief propagation."
    )


# Sizes of trees and the memory that they take, computed before anything is allocated.


class Size(NamedTuple):
    """Levels below the root, children of a node, and symbols of the alphabet.

    Examples
    --------
    >>> Size(4, 3, 10).leaves, str(Size(4, 3, 10)), Size.of("2x3x10").depth
    (81, '4x3x10', 2)
    """

    depth: int
    branching: int
    symbols: int

    @classmethod
    def of(cls, text: str) -> Size:
        """Read what ``str`` wrote.

        Raises
        ------
        ValueError
            If the text is no size, or one that no tree can have.
        """
        if not re.fullmatch(r"\d+x\d+x\d+", text):
            raise ValueError(f"a size is depth x branching x symbols, as in 2x3x10, not {text}")
        size = cls(*map(int, text.split("x")))
        if size.symbols < 2:
            raise ValueError(
                f"an alphabet of {size.symbols} is too small: it takes 2 symbols or more"
            )
        if size.depth < 1 or size.branching < 1:
            raise ValueError("depth and branching must be 1 or more")
        return size

    def __str__(self) -> str:
        return "x".join(map(str, self))

    @property
    def leaves(self) -> int:
        """Number of leaves of one tree."""
        return int(self.branching**self.depth)

    @property
    def nodes(self) -> int:
        """Number of nodes below the root of one tree."""
        return int(sum(self.branching**level for level in range(1, self.depth + 1)))

    def bytes_of_matrices(self) -> int:
        """Return the bytes of the matrices of both trees in double precision."""
        return 2 * 8 * self.depth * self.branching * self.symbols**2

    def bytes_of_messages(self, batch: int, itemsize: int) -> int:
        """Return the bytes of belief propagation in a batch, up and down, in both trees."""
        # Evidence, messages to the parent, beliefs, and one intermediate of each on the way.
        return 2 * 5 * batch * self.nodes * self.symbols * itemsize

    def bytes_of_samples(self, number: int) -> int:
        """Return the bytes needed to draw `number` pairs at once, and to keep them."""
        return number * self.leaves * (3 * 8 + 3 * 4 * self.symbols)

    def bytes_of_training(self, batch: int, width: int, blocks: int, tokens: int) -> int:
        """Return the bytes that a transformer's step keeps for gradients, in single precision."""
        # Per token and block: two norms, three projections, attention, two sums, 3 x 4 width.
        return 4 * batch * blocks * tokens * (20 * width + 3 * tokens)


def refuse_too_large(needed: int, device: str, what: str, remedy: str) -> None:
    """Stop before an allocation of `needed` bytes that cannot work.

    Raises
    ------
    UserError
        If the memory of the machine, or of its GPU, is too small, with both numbers.
    """
    available = free_memory(device)
    if needed > MEMORY_SHARE * available:
        raise UserError(
            f"{what} would take {needed / 1e9:,.1f} GB of memory, but there are "
            f"{available / 1e9:,.1f} GB: {remedy}."
        )
