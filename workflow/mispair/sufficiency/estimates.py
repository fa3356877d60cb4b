"""Means with intervals, and the fit of a risk against the number of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit
from torch import Tensor

CONFIDENCE = 0.95


def estimate(values: Tensor, block: int = 1) -> dict[str, Any]:
    """Return mean, number and 95 % interval of values of independent samples.

    Parameters
    ----------
    values : Tensor (samples,)
        One number for each sample.
    block : int
        Samples within this distance may depend on each other, like pairs with a common candidate:
        the spread is that of the means of blocks of this size.

    Returns
    -------
    dict
        ``value``, ``n``, ``low`` and ``high``; limits are NaN with fewer than two blocks.
    """
    array = values.double().cpu().numpy()
    blocks = len(array) // block
    summary: dict[str, Any] = {"value": float(array.mean()), "n": len(array)}
    if blocks < 2:
        return {**summary, "low": float("nan"), "high": float("nan")}
    means = array[: blocks * block].reshape(blocks, block).mean(axis=1)
    error = float(means.std(ddof=1)) / blocks**0.5
    half = float(stdtrit(blocks - 1, (1 + CONFIDENCE) / 2)) * error
    return {**summary, "low": summary["value"] - half, "high": summary["value"] + half}


def fit_inverse(numbers: Sequence[int], risks: Sequence[float]) -> tuple[float, float, float]:
    """Fit risk = A / M + B by least squares; return A, B and the root mean square residual.

    Raises
    ------
    ValueError
        If there are fewer than two different M.

    Examples
    --------
    >>> fit_inverse([10, 20, 50], [2.5, 2.25, 2.1])
    (5.0, 2.0, 0.0)
    """
    if len(set(numbers)) < 2:
        raise ValueError("a fit of A / M + B needs two numbers of prompts")
    inverse = 1 / np.asarray(numbers, dtype=float)
    values = np.asarray(risks, dtype=float)
    design = np.stack([inverse, np.ones_like(inverse)], axis=1)
    (slope, level), *_ = np.linalg.lstsq(design, values, rcond=None)
    rest = values - design @ np.array([slope, level])
    return float(slope), float(level), float(np.sqrt((rest**2).mean()))
