"""The arms of the image-text study: where a fine-tuning starts, and on which captions.

A start is one declaration in `STARTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple


@dataclass(frozen=True)
class Start:
    """Where a fine-tuning starts and what it does otherwise than others, and its words.

    Attributes
    ----------
    effect : str
        What it does, after its name, in the reference of the settings.
    label : str
        Its name in the report: as a control of claims, in legends and in tables.
    training : mapping of str to object
        Values of `mispair.towers.finetuning.finetuning_settings.FinetuningLength` that differ.
    random_norm : float or None
        None starts from the model's projections; otherwise random ones, with this factor on the
        standard deviation of open_clip's initial projections.
    fixed_scale : float or None
        The logit scale at the start, the factor on the cosines, or None for the model's.
    by_default : bool
        Whether the settings contain it by default.
    """

    effect: str
    label: str
    training: Mapping[str, Any] = field(default_factory=dict)
    random_norm: float | None = None
    fixed_scale: float | None = None
    by_default: bool = True


def _frozen_at(scale: float, by_default: bool) -> Start:
    return Start(
        f"freezes the logit scale at {scale:g}", f"logit scale frozen at {scale:g}",
        {"logit_scale": "frozen"}, fixed_scale=scale, by_default=by_default,
    )  # fmt: skip


PRETRAINED = "pretrained"
CONVERGED = "scale-converged"
"""The control whose logit scale is at its optimum."""

STARTS: dict[str, Start] = {
    PRETRAINED: Start(
        "starts from the model's projections", "pre-trained, frozen logit scale",
    ),
    CONVERGED: Start(
        "sets the logit scale to its optimum",
        "logit scale at its optimum", {"logit_scale": "solved"},
    ),
    # The shipped towers have a scale of 35.5; 10 and 70 are far enough from it on both sides.
    "scale-5": _frozen_at(5, by_default=False),
    "scale-10": _frozen_at(10, by_default=True),
    "scale-20": _frozen_at(20, by_default=False),
    "scale-35": _frozen_at(35, by_default=False),
    "scale-70": _frozen_at(70, by_default=True),
    "reinitialised": Start(
        "starts from random projections of norm x 1",
        "random start, norm × 1", random_norm=1.0,
    ),
    "reinitialised-small": Start(
        "starts from random projections of norm x 0.1",
        "random start, norm × 0.1", random_norm=0.1,
    ),
    "without-decay": Start(
        "has no weight decay", "without weight decay", {"weight_decay": 0.0},
    ),
}  # fmt: skip
"""Starts of a fine-tuning: the paper's own, then controls that change one thing.

All but the first vary the training, not the captions: one scheme of corruption is enough.
"""

UNTOUCHED, WEIGHTED = "untouched", "audit-weighted"
"""The model's own projections, and the pretrained start with each pair weighted by the probability
that its caption is right."""
OTHER_ARMS: dict[str, Start] = {
    WEIGHTED: Start("", "pairs weighted by the audit"),
    UNTOUCHED: Start("", "untouched model"),
}

LABELS = {name: start.label for name, start in {**STARTS, **OTHER_ARMS}.items()}
"""The name of each start in the report; in files and paths it is its key."""

if TYPE_CHECKING:
    StartName = str
    AnyStart = str
else:
    StartName = Literal[tuple(STARTS)]
    AnyStart = Literal[(UNTOUCHED, WEIGHTED, *STARTS)]

REPAIR = "repair-"
"""Prefix of the starts whose captions a rule of the study repair chooses."""

FIXED_SCALES = {name: start.fixed_scale for name, start in STARTS.items() if start.fixed_scale}
RANDOM_STARTS = {name: start.random_norm for name, start in STARTS.items() if start.random_norm}


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
