"""Runs and their curves, as TensorBoard takes them.

Curves are made from complete results. A resumed training has every step in them once, so steps
never go back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Curve:
    """Values of a quantity at ascending steps."""

    tag: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class TrainingCurves:
    """A training: its name, whose slashes group runs in TensorBoard, its keys and its curves."""

    name: str
    about: Mapping[str, Any]
    curves: tuple[Curve, ...]


def thinned(tag: str, values: np.ndarray, points: int) -> Curve:
    """Return the values of steps 0, 1, ... as at most `points` points.

    Each point is the mean of nearly equally many neighbouring values, at the last of their steps.
    """
    ends = np.linspace(0, len(values), min(points, len(values)) + 1).astype(int)
    means = [float(np.mean(values[a:b])) for a, b in pairwise(ends)]
    return Curve(tag, tuple((ends[1:] - 1).tolist()), tuple(means))


def in_order(curves: Mapping[str, Mapping[int, float]]) -> Iterable[Curve]:
    """Yield a curve for each name, from its values by step."""
    for tag, points in sorted(curves.items()):
        steps = sorted(points)
        yield Curve(tag, tuple(steps), tuple(float(points[step]) for step in steps))


def tag_of(parts: Iterable[Any]) -> str:
    """Join the parts of a name that are not missing, in letters that TensorBoard keeps."""
    names = (
        f"{part:g}" if isinstance(part, float) else str(part) for part in parts if not pd.isna(part)
    )
    return "/".join(re.sub(r"[^\w. -]", "_", word.replace("@", "_at_")) for word in names)


def file_name(text: str) -> str:
    """Return a text as a file name: letters, digits and ``. _ ~ @ = -`` are kept.

    Examples
    --------
    >>> file_name("wds/cifar10_<b>")
    'wds-cifar10_-b-'
    """
    return re.sub(r"[^\w.~@=-]", "-", text).lstrip(".") or "-"


def path_of(name: str) -> str:
    """Return a name whose parts are safe as names of files."""
    return "/".join(file_name(part) for part in name.split("/"))
