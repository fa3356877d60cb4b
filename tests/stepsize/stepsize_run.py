"""Trainings of the stepsize study with the settings of the tests."""

from collections.abc import Callable, Sequence
from typing import Any

from mispair.core.resume import Keeper
from mispair.stepsize.data_sets import MADE
from mispair.stepsize.measures import run_part
from mispair.stepsize.settings import Part, TwoLayerSettings


def trained(
    part: str,
    data_set: str,
    activation: str,
    widths: Sequence[int],
    stepsizes: Sequence[float],
    seeds: int,
    steps: int,
    keeper: Callable[[str], Keeper[Any]] | None = None,
    **settings: Any,
) -> list[dict[str, Any]]:
    """Return the rows of a part with one activation."""
    whole = Part(
        part=part, data_set=data_set, activations=[activation], widths=widths,
        stepsizes=stepsizes, seeds=seeds, steps=steps,
    )  # fmt: skip
    return run_part(whole, TwoLayerSettings(**{"points": 80, **settings}), MADE[data_set], keeper)
