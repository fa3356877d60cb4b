"""Declarations of claims: what is measured, which rule decides, and which controls limit it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from mispair.report.rules import Rule
from mispair.report.statistics import Effect, unknown_effect
from mispair.report.tables import Tables

THIRD = 1 / 3
"""Share of a published effect that is the smallest effect of interest, unless a claim says
otherwise; below it a control's effect counts as gone."""

SAME = 2 / 3
"""Above this share a control's effect counts as the same as the claim's own."""

MISSING = unknown_effect(float("nan"), 0, "")


@dataclass(frozen=True)
class PartEffect:
    """The effect of a claim on a part of its data, with the bound that applies there."""

    effect: Effect
    bound: float = float("nan")


@dataclass(frozen=True)
class MeasuredClaim:
    """What was measured of a claim. All fields are numbers.

    Attributes
    ----------
    effect : Effect
        The number that the claim is about.
    bound : float
        Smallest effect of interest, or level, if the measurement gives it (such as a share of what
        wrong captions cost in the same run); NaN where the claim declares it.
    published : float
        The published effect that it is compared with, in the same unit.
    first, last : float
        The two values whose difference the effect is: those at the ends of the sweep, or of the
        two arms (the effect is last − first). For logs, the values themselves.
    published_first, published_last : float
        The same, published.
    at : tuple of float
        The values of the swept variable at the two ends, or the one value at which arms differ.
    rates : mapping of float to PartEffect
        The same effect at each value of the sweep above the lowest. Its largest is that of the
        effect itself.
    parts : mapping of str to MeasuredClaim
        The same for each part that must hold, such as both towers: `Claim.every` names them.
    sets : mapping of str to PartEffect
        The same effect on each evaluation set.
    gate : str
        Name of a condition that is not met, so that nothing can be decided; "" if all are.
    """

    effect: Effect = MISSING
    bound: float = float("nan")
    published: float = float("nan")
    first: float = float("nan")
    last: float = float("nan")
    published_first: float = float("nan")
    published_last: float = float("nan")
    at: tuple[float, ...] = ()
    rates: Mapping[float, PartEffect] = field(default_factory=dict)
    parts: Mapping[str, MeasuredClaim] = field(default_factory=dict)
    sets: Mapping[str, PartEffect] = field(default_factory=dict)
    gate: str = ""


Measure = Callable[[Tables, float], MeasuredClaim]
"""Measures a claim, or a control, from the tables at a confidence level."""


@dataclass(frozen=True)
class Control:
    """The same effect on other rows, with the share of the claim's effect that must remain.

    Attributes
    ----------
    key : str
        Name of the control, in words, as pages print it.
    measure : callable
        What is measured on the other rows.
    least : float or None
        The control limits the claim if less than this share of its effect remains.
    most : float or None
        The control, a placebo, limits the claim if more than this share remains. Exactly one of
        `least` and `most` is given.
    of : callable or None
        What the share is of; by default the claim's own effect.
    """

    key: str
    measure: Measure
    least: float | None = THIRD
    most: float | None = None
    of: Measure | None = None

    def __post_init__(self) -> None:
        if (self.least is None) == (self.most is None):
            raise ValueError(f"the control {self.key} needs one of least and most")


@dataclass(frozen=True)
class Claim:
    """A claim as data.

    Attributes
    ----------
    key, study : str
        Its name, and the package of its study.
    sentence, paper : str
        The claim in one sentence, and its place in the paper.
    figure : str
        Name of the figure that shows it; "{preset}" is replaced by the preset.
    measure : callable
        From tables and confidence to numbers; one of `mispair.report.measures`, or a function.
    rule : Rule
        One of the five rules.
    sign : int
        Claimed sign of the effect, +1 or −1.
    bound : float
        Smallest effect of interest, largest difference that counts as none, level, or needed share
        of runs; NaN if the measurement gives it, as a share of something measured or published.
    controls : tuple of Control
        What may limit the claim.
    primary : bool
        Whether it is one of the few claims that the report is about.
    needs : str
        Settings that measure it, such as ``simulate: {arms_trials: 4}``.
    unit : str
        Unit in which pages print the effect: "points" (percentage points of a share), "log" (a
        difference of natural logs, printed as a relative change) or a noun; "" for a bare number.
    every : str
        What the parts of the measurement are ("tower"): the claim holds if it holds for each part.
    power : callable or None
        From tables and confidence to the name of a condition without which a small effect shows
        nothing, such as a training that changes something; "" if it is met.
    """

    key: str
    study: str
    sentence: str
    paper: str
    figure: str
    measure: Measure
    rule: Rule = "effect"
    sign: Literal[1, -1] = 1
    bound: float = float("nan")
    controls: tuple[Control, ...] = ()
    primary: bool = False
    needs: str = ""
    unit: str = ""
    every: str = ""
    power: Callable[[Tables, float], str] | None = None
