"""Settings of every step that runs a frozen tower."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mispair.core import settings
from mispair.core.devices import Precision


class EncodingSettings(settings.Settings):
    """How a frozen tower is run."""

    batch_size: int = Field(
        256, ge=1, description="Images or texts per forward pass; halved where memory runs out."
    )
    precision: Precision = Field(
        "fp32", description="Number format in the tower; bf16 and fp16 are faster on GPUs."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where the tower runs; auto takes a GPU when there is one."
    )
