"""What the arms of the image-text study are called, by where their projections come from."""

from __future__ import annotations

from typing import Literal, get_args

Start = Literal["pretrained", "reinitialised", "without-decay", "free-logit-scale"]
"""Starts of a fine-tuning: from the model's projections, and controls that change one thing."""

Arm = Literal["untouched", "pretrained", "reinitialised", "without-decay", "free-logit-scale"]
"""The model's own projections, or a start of a fine-tuning."""

UNTOUCHED = "untouched"
STARTS: tuple[Start, ...] = get_args(Start)
CONTROLS_OF_TRAINING: tuple[Start, ...] = ("without-decay", "free-logit-scale")
"""Starts that ask about training, not about captions: one scheme of corruption is enough."""
