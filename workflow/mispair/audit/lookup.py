"""Where values are in an array."""

from __future__ import annotations

import numpy as np


def first_places(sought: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return where each sought value is first in an array, (m,) int64; -1 where it is not."""
    if not len(values):
        return np.full(len(sought), -1)
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    position = np.minimum(np.searchsorted(ordered, sought), len(values) - 1)
    return np.where(ordered[position] == sought, order[position], -1)


def all_places(sought: np.ndarray, ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all places of some values in a sorted array, and which value is there.

    Returns
    -------
    places, which : (m,) int arrays
        Places in `ordered`, and in `sought`.
    """
    first, end = (np.searchsorted(ordered, sought, side) for side in ("left", "right"))
    counts = end - first
    owners = np.repeat(np.arange(len(sought)), counts)
    within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    return first[owners] + within, owners
