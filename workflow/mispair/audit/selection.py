"""Which pairs are kept and shown, by the probability that their caption is wrong."""

from __future__ import annotations

import numpy as np

from mispair.core.metrics import Row


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
        Replaces the cut: as many of the most suspicious pairs as possible are left out, so that by
        their probabilities at most this share of them is right.
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


def selection_rows(probability: np.ndarray, kept: np.ndarray) -> list[Row]:
    """Return how many of n pairs are kept, and the expected number of mistakes."""
    n, judged = len(kept), np.isfinite(probability)
    return [
        {"metric": "pairs_kept", "value": int(kept.sum()), "n": n},
        {"metric": "pairs_removed", "value": int((~kept).sum()), "n": n},
        {"metric": "expected_wrong_kept", "value": float(probability[kept & judged].sum())},
        {"metric": "expected_right_removed", "value": float((1 - probability[~kept]).sum())},
    ]


def shown_kinds(
    probability: np.ndarray, similarity: np.ndarray, number: int
) -> dict[str, np.ndarray]:
    """Return the positions of suspicious pairs by kind, the most suspicious first; (k,) int each.

    Those whose caption is most likely wrong, or without probabilities the least similar ones; and
    those of probabilities from 0.1 to 0.9, nearest to 0.5 first. A kind has at most `number`.
    """
    judged = bool(np.isfinite(probability).any())
    score = probability if judged else -similarity
    between = (probability >= 0.1) & (probability <= 0.9)
    return {
        "most likely wrong" if judged else "least similar": _largest(score, number),
        "could be either": _largest(np.where(between, -np.abs(probability - 0.5), np.nan), number),
    }


def _largest(score: np.ndarray, number: int) -> np.ndarray:
    """Return the positions of the largest finite scores, the largest first; (k,) int."""
    judged = np.flatnonzero(np.isfinite(score))
    return judged[np.argsort(-score[judged], kind="stable")[:number]]
