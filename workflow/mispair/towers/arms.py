"""The arms of the image-text study: where a fine-tuning starts, and on which captions."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

Start = Literal[
    "pretrained", "scale-converged", "scale-5", "scale-10", "scale-20", "scale-35", "scale-70",
    "reinitialised", "reinitialised-small", "without-decay",
]  # fmt: skip
"""Starts of a fine-tuning: from the model's projections, and controls that change one thing."""

REPAIR = "repair-"
"""Prefix of the starts whose captions a rule of the study repair chooses."""

AnyStart = Literal["untouched", "audit-weighted", Start]
"""The model's own projections, or any fine-tuning."""

UNTOUCHED = "untouched"
STARTS: tuple[Start, ...] = get_args(Start)
PRETRAINED: Start = "pretrained"
WEIGHTED = "audit-weighted"
"""The pretrained start, with each pair weighted by the probability that its caption is right."""
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
"""Random starts: factor on the standard deviation of open_clip's initial projections."""
CONTROLS_OF_TRAINING: tuple[Start, ...] = tuple(start for start in STARTS if start != PRETRAINED)
"""Starts that vary the training, not the captions: one scheme of corruption is enough."""


class Arm(NamedTuple):
    """A fine-tuning: its start, the scheme of corruption and its rate; or the untouched model.

    Its ``str`` is the name in paths of results.

    Examples
    --------
    >>> str(Arm("pretrained", "random", 0.3)), str(Arm("untouched"))
    ('pretrained_random~0.3', 'untouched')
    """

    start: str
    scheme: str | None = None
    rate: float | None = None

    def __str__(self) -> str:
        if self.scheme is None or self.rate is None:
            return self.start
        return f"{self.start}_{corruption(self.scheme, self.rate)}"


def corruption(scheme: str, rate: float) -> str:
    """Return the name of a scheme of corruption at a rate in paths of results."""
    return f"{scheme}~{rate:g}"
