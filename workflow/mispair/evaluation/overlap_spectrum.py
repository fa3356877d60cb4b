"""Separate the effects of a projection's spectrum and of its basis on the overlap of neurons.

Let G be the Gram matrix of the N columns of a projection at length one, and λ its eigenvalues,
which sum to N. The mean squared cosine of two columns is exactly ``(Σλ²/N - 1) / (N - 1)``,
because ``Σλ²`` is the sum of all squared entries of G, and N of these are one. The participation
ratio is ``PR = (Σλ)²/Σλ² = N²/Σλ²`` (the number of directions that the columns share evenly). With
it the mean is ``(N/PR - 1) / (N - 1)``, which depends on the spectrum alone.

The mean absolute cosine is ``√(2/π)`` times the root mean square if cosines are distributed as a
Gaussian. The *shape ratio* is the mean absolute cosine over that product: the part of the measure
that the spectrum does not determine. Columns that form groups or coincide have a smaller one.

A rotation of the basis keeps the eigenvalues μ of the raw columns' Gram matrix, but the columns
have other lengths after it, so cosines are not exactly invariant. A column after a uniformly drawn
(Haar) rotation is ``M r`` with r uniform on the sphere, and at length one its expected share of the
k-th eigendirection is ``a_k = E[μ_k g_k² / Σ μ_l g_l²]``, g Gaussian: again a function of the
spectrum alone. With ``N a`` instead of λ, the identity predicts the value of rotated bases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mispair.core.metrics import Row
from mispair.evaluation.purity import unit_columns

GAUSSIAN = math.sqrt(2 / math.pi)
"""Mean absolute value of a Gaussian over its root mean square."""

ROUNDING = 1e-12
"""Shares of the trace below which an eigenvalue is rounding."""

NULL = (0.025, 0.975)
"""Quantiles of a null that are written with its mean."""


def rms_of_directions(participation: float, neurons: int) -> float:
    """Return the root mean square cosine of N unit columns with a participation ratio.

    Examples
    --------
    >>> rms_of_directions(128, 128), rms_of_directions(1, 128)
    (0.0, 1.0)
    """
    return math.sqrt(max(neurons / participation - 1, 0) / (neurons - 1))


def directions_of_overlap(overlap: float, neurons: int) -> float:
    """Return the participation ratio of N columns with a mean absolute cosine and shape ratio 1.

    Examples
    --------
    >>> [round(directions_of_overlap(value, 512)) for value in (0.0562, 0.1270)]
    [145, 37]
    """
    return neurons / (1 + (neurons - 1) * (overlap / GAUSSIAN) ** 2)


def shares_after_rotation(eigenvalues: np.ndarray) -> np.ndarray:
    """Return the expected shares of the eigendirections in a unit column after a random rotation.

    Parameters
    ----------
    eigenvalues : (N,) array
        μ of the Gram matrix of the raw columns; values below rounding count as zero.

    Returns
    -------
    (N,) array
        ``a_k = E[μ_k g_k² / Σ μ_l g_l²] = ∫ μ_k / (1 + 2 μ_k t) Π (1 + 2 μ_l t)^(-1/2) dt`` over t
        from 0 to infinity; sums to one. (With ``1/s = ∫ exp(-s t) dt``.)
    """
    shares = np.asarray(eigenvalues, dtype=np.float64) / np.sum(eigenvalues)
    shares = np.where(shares > ROUNDING, shares, 0)
    logarithm = np.linspace(-18, 16, 500)
    steps = 1 + 2 * np.outer(np.exp(logarithm), shares)
    density = np.exp(logarithm - 0.5 * np.log(steps).sum(axis=1))
    expected = np.trapezoid(density[:, None] * shares / steps, logarithm, axis=0)
    return np.asarray(expected / expected.sum())


def overlap_and_rms(gram: np.ndarray) -> tuple[float, float]:
    """Return the mean absolute and the root mean square cosine of columns with a Gram matrix.

    Parameters
    ----------
    gram : (N, N) array
        Products of the columns, of any lengths above zero.
    """
    lengths = np.sqrt(np.diag(gram))
    cosines = np.abs(gram)
    cosines /= lengths
    cosines /= lengths[:, None]
    np.fill_diagonal(cosines, 0)
    pairs = len(gram) * (len(gram) - 1)
    return float(cosines.sum() / pairs), math.sqrt(np.vdot(cosines, cosines) / pairs)


def spectral_measures(raw_gram: np.ndarray) -> dict[str, float]:
    """Return mean |cos|, its root mean square, shape ratio and participation ratio of columns.

    Parameters
    ----------
    raw_gram : (N, N) array
        Products of the columns, of any lengths above zero.
    """
    mean, rms = overlap_and_rms(raw_gram)
    neurons = len(raw_gram)
    return {
        "mean_abs_cosine": mean,
        "rms_cosine": rms,
        "shape_ratio": mean / (GAUSSIAN * rms) if rms > 0 else math.nan,
        # The identity, solved for PR.
        "participation_ratio": neurons / (1 + (neurons - 1) * rms**2),
    }


def null_summary(values: Sequence[float], value: float) -> Row:
    """Summarise a null distribution over rotations, and the place of a value in it.

    Returns
    -------
    dict
        ``value`` and ``deviation``, mean and standard deviation over the rotations; ``low`` and
        ``high``, the `NULL` quantiles; ``below``, the share of rotations below `value`; and
        ``rotations``, their number.
    """
    null = np.asarray(values, dtype=np.float64)
    low, high = np.quantile(null, NULL)
    return {
        "value": null.mean(),
        "deviation": null.std(ddof=1) if len(null) > 1 else math.nan,
        "low": low,
        "high": high,
        "below": (null < value).mean(),
        "rotations": len(null),
    }


def spectral_rows(projection: np.ndarray, rotations: Sequence[np.ndarray]) -> list[Row]:
    """Return the spectral measures of a projection, and its place among rotated bases, as rows.

    Parameters
    ----------
    projection : (d, N) array
        Columns are neurons.
    rotations : sequence of (N, N) arrays
        Orthogonal matrices. The Gram matrix after a rotation is that of the raw columns, rotated
        from both sides, so the cost does not depend on d.

    Returns
    -------
    list of dict
        ``metric``, ``value`` and ``n``, the number of ordered pairs. Metrics are those of
        `spectral_measures` without ``mean_abs_cosine`` (see `purity.measures`), and
        ``rms_cosine_spectrum``, the prediction for rotated bases from the eigenvalues of the raw
        columns alone. With rotations there is also a row for every metric of `spectral_measures`
        with the suffix ``_rotated``: the `null_summary` of the rotated bases.

    Raises
    ------
    ValueError
        If a column is zero or not finite.
    """
    unit_columns(projection)  # raises
    raw = np.asarray(projection, dtype=np.float64)
    raw_gram, neurons = raw.T @ raw, raw.shape[1]
    measured = spectral_measures(raw_gram)
    shares = shares_after_rotation(np.linalg.eigvalsh(raw_gram))
    predicted = rms_of_directions(1 / np.square(shares).sum(), neurons)
    rows: list[Row] = [
        {"metric": metric, "value": value}
        for metric, value in {**measured, "rms_cosine_spectrum": predicted}.items()
        if metric != "mean_abs_cosine"
    ]
    null = [spectral_measures(turn.T @ raw_gram @ turn) for turn in rotations]
    for metric, quantity in measured.items() if null else ():
        values = [each[metric] for each in null]
        rows.append({"metric": f"{metric}_rotated", **null_summary(values, quantity)})
    return [{**row, "n": neurons * (neurons - 1)} for row in rows]
