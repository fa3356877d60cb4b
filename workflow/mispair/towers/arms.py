"""Names of the arms of the image-text study, by the projections that they start from."""

from __future__ import annotations

from typing import Literal, get_args

Start = Literal[
    "pretrained", "scale-converged", "scale-5", "scale-10", "scale-20", "scale-35", "scale-70",
    "reinitialised", "reinitialised-small", "without-decay",
]  # fmt: skip
"""Starts of a fine-tuning: from the model's projections, and controls that change one thing."""

Arm = Literal["untouched", Start]
"""The model's own projections, or a start of a fine-tuning."""

UNTOUCHED = "untouched"
STARTS: tuple[Start, ...] = get_args(Start)
PRETRAINED: Start = "pretrained"
CONVERGED: Start = "scale-converged"
"""The control that trains the logit scale to its optimum."""
FIXED_SCALES: dict[str, float] = {
    "scale-5": 5.0,
    "scale-10": 10.0,
    "scale-20": 20.0,
    "scale-35": 35.0,
    "scale-70": 70.0,
}
"""Controls that set the logit scale, the factor on the cosines, and freeze it there."""
RANDOM_STARTS: dict[str, float] = {"reinitialised": 1.0, "reinitialised-small": 0.1}
"""Starts from random projections: factor on the standard deviation that open_clip starts with."""
CONTROLS_OF_TRAINING: tuple[Start, ...] = tuple(start for start in STARTS if start != PRETRAINED)
"""Starts that ask about training, not about captions: one scheme of corruption is enough."""
