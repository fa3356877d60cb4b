"""Names of trainings and tasks, for settings and rules as well: this module loads quickly."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

Flip = Annotated[float, Field(ge=0, le=1)]
"""A flip probability p."""

Variant = Literal["standard", "guided", "shallow"]
"""Variants of contrastive encoders."""

Task = Literal["cdm", "vlm"]
"""Conditional denoising, and next-word prediction by vision and language."""

Arm = Literal["frozen", "shallow", "untrained", "oracle", "joint", "guided"]
"""What a head reads of the other modality: see `mispair.sufficiency.heads`."""

VARIANTS: tuple[Variant, ...] = get_args(Variant)
TASKS: tuple[Task, ...] = get_args(Task)
ARMS: tuple[Arm, ...] = get_args(Arm)

OF_ENCODERS: tuple[Arm, ...] = ("frozen", "shallow", "untrained")
"""Arms whose heads read a contrastive encoder."""

READ_LEAVES: tuple[Arm, ...] = ("joint", "guided")
"""Arms whose heads read all leaves of the other modality."""
