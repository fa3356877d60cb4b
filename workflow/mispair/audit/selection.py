"""Which pairs are kept, by the probability that their caption is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

UID = re.compile(r"[0-9a-f]{32}")
"""Form of a DataComp uid."""


def kept_pairs(
    probability: np.ndarray, cut: float, false_discovery_rate: float | None
) -> np.ndarray:
    """Return which pairs are kept, (n,) bool; all without probabilities.

    Parameters
    ----------
    probability : (n,) array
        That the caption is wrong; NaN where there is none.
    cut : float
        Pairs of this probability and above are left out.
    false_discovery_rate : float, optional
        In place of the cut: as many of the most suspicious pairs are left out as hold, by their
        probabilities, at most this share of right ones.
    """
    if false_discovery_rate is None:
        return ~(probability >= cut)
    order = np.argsort(-np.nan_to_num(probability, nan=-1.0), kind="stable")
    judged = np.isfinite(probability[order])
    right = np.cumsum(np.where(judged, 1 - probability[order], 1.0))
    share = right / np.arange(1, len(order) + 1)
    possible = np.flatnonzero((share <= false_discovery_rate) & judged)
    kept = np.ones(len(probability), bool)
    if len(possible):
        kept[order[: possible[-1] + 1]] = False
    return kept


def uid_array(keys: Iterable[str]) -> np.ndarray | None:
    """Return DataComp uids as DataComp's resharder reads them, sorted; None for other keys.

    Examples
    --------
    >>> uid_array(["000000000000000a000000000000000b"])
    array([(10, 11)], dtype=[('f0', '<u8'), ('f1', '<u8')])
    """
    names = list(keys)
    if not names or not all(UID.fullmatch(name) for name in names):
        return None
    halves = [(int(name[:16], 16), int(name[16:], 16)) for name in names]
    return np.sort(np.array(halves, np.dtype("u8,u8")))


def most_likely(score: np.ndarray, number: int) -> np.ndarray:
    """Return the positions of the largest scores, the largest first; (k,) int."""
    judged = np.flatnonzero(np.isfinite(score))
    return judged[np.argsort(-score[judged], kind="stable")[:number]]


def borderline(probability: np.ndarray, number: int) -> np.ndarray:
    """Return the positions of probabilities from 0.1 to 0.9, those nearest to ½ first; (k,) int."""
    between = np.flatnonzero((probability >= 0.1) & (probability <= 0.9))
    return between[np.argsort(np.abs(probability[between] - 0.5), kind="stable")[:number]]
