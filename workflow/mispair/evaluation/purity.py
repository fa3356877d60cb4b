"""Overlap of the neurons of a projection: purity, its reference and its controls.

A neuron is a column of a final projection. Its impurity is the mean absolute cosine with all
other neurons: low is pure. Similarities of embeddings do not change when both projections are
multiplied by one orthogonal matrix, so similarities do not identify neurons. The mean absolute
cosine does change, but little: `spectral_measures` separates the effect of the spectrum from that
of the basis.
"""

import math
from collections.abc import Sequence

import numpy as np

from mispair.core import seeds
from mispair.core.metrics import Row

DEFINITION = (
    "A neuron is a column of a tower's final projection, a matrix with d rows (the width of the "
    "features before it) and N columns (the width of the embedding). The mean |cos| of neuron j is "
    "the mean of |vᵢ·vⱼ| / (‖vᵢ‖ ‖vⱼ‖) over the N−1 other columns i; that of a tower is the mean "
    "over its neurons, that is over all N(N−1) ordered pairs of different columns. Low is pure. "
    "Image and text tower are measured each on its own. Lengths, signs and order of the neurons "
    "do not matter. Random directions have Γ(d/2) / (√π Γ((d+1)/2)) on average, which is √(2/πd) "
    "for large d: 0.0288 for 768 rows, 0.0353 for 512. To divide by N² with the diagonal at zero, "
    "as a script of the authors does, gives (N−1)/N of these numbers."
)
"""Definition of purity for readers of the report."""


def unit_columns(projection: np.ndarray) -> np.ndarray:
    """Return the columns of a (d, e) projection at length one, in double precision.

    Raises
    ------
    ValueError
        If a column is zero or not finite: it has no direction.
    """
    projection = np.asarray(projection, dtype=np.float64)
    norms = np.linalg.norm(projection, axis=0)
    without = np.flatnonzero(~np.isfinite(norms) | (norms == 0))
    if without.size:
        raise ValueError(f"neuron {without[0]} has no direction (norm {norms[without[0]]})")
    return projection / norms


def neuron_overlap(projection: np.ndarray) -> np.ndarray:
    """Return the mean absolute cosine of every neuron with all others.

    Parameters
    ----------
    projection : (d, e) array
        Columns are neurons, e >= 2.

    Returns
    -------
    (e,) float64 array
        For neuron j the mean of ``|cos(v_j, v_i)|`` over the e - 1 others. The mean of these is
        the mean over all N(N-1) pairs.
    """
    columns = unit_columns(projection)
    cosines = np.abs(columns.T @ columns)
    np.fill_diagonal(cosines, 0.0)
    return cosines.sum(axis=1) / (len(cosines) - 1)


def random_overlap(dimensions: int) -> float:
    """Return the mean absolute cosine of vectors drawn uniformly from all directions.

    ``Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2))``: the mean of |t| under the density of a cosine,
    which is proportional to ``(1 - t^2)^((d-3)/2)``. For large d that is ``sqrt(2 / (pi d))``,
    which is too small by a share of 1/(4d): 1.3 % at d = 20, 0.05 % at d = 512.

    Parameters
    ----------
    dimensions : int
        d >= 1, the number of rows of the projection.
    """
    halves = math.lgamma(dimensions / 2) - math.lgamma((dimensions + 1) / 2)
    return math.exp(halves) / math.sqrt(math.pi)


def random_rotation(size: int, generator: np.random.Generator) -> np.ndarray:
    """Draw an orthogonal (size, size) matrix uniformly (Haar).

    The Q factor of a Gaussian matrix, with the signs that make the diagonal of R positive
    (Mezzadri 2007, Notices of the AMS 54, 592): without them Q is not uniform.
    """
    q, r = np.linalg.qr(generator.standard_normal((size, size)))
    return q * np.sign(np.diag(r))


def random_rotations(size: int, number: int, seed: int) -> list[np.ndarray]:
    """Draw the rotations of a seed, which are the same in all steps that rotate bases."""
    return [
        random_rotation(size, seeds.generator(seed, "rotation", turn)) for turn in range(number)
    ]


def measures(projection: np.ndarray) -> list[Row]:
    """Return the purity measures of one projection in its own basis as rows.

    Parameters
    ----------
    projection : (d, e) array
        Columns are neurons.

    Returns
    -------
    list of dict
        ``metric``, ``value`` and ``n``, the number of pairs of neurons: ``mean_abs_cosine``,
        ``random_reference``, and ``neuron_purity`` (its mean absolute cosine) with ``neuron``.
    """
    overlap = neuron_overlap(projection)
    dimensions, neurons = projection.shape
    pairs = neurons * (neurons - 1)
    rows: list[Row] = [
        {"metric": "mean_abs_cosine", "value": overlap.mean(), "n": pairs},
        {"metric": "random_reference", "value": random_overlap(dimensions)},
    ]
    rows += [
        {"metric": "neuron_purity", "value": value, "n": neurons - 1, "neuron": neuron}
        for neuron, value in enumerate(overlap)
    ]
    return rows


# Separate the effects of a projection's spectrum and of its basis on the overlap of neurons.
#
# Let G be the Gram matrix of the N columns of a projection at length one, and λ its eigenvalues,
# which sum to N. The mean squared cosine of two columns is exactly ``(Σλ²/N - 1) / (N - 1)``,
# because ``Σλ²`` is the sum of all squared entries of G, and N of these are one. The participation
# ratio is ``PR = (Σλ)²/Σλ² = N²/Σλ²`` (the number of directions that the columns share evenly).
# With it the mean is ``(N/PR - 1) / (N - 1)``, which depends on the spectrum alone.
#
# The mean absolute cosine is ``√(2/π)`` times the root mean square if cosines are distributed as a
# Gaussian. The *shape ratio* is the mean absolute cosine over that product: the part of the
# measure that the spectrum does not determine. Columns that form groups or coincide have a smaller
# one.

GAUSSIAN = math.sqrt(2 / math.pi)
"""Mean absolute value of a Gaussian over its root mean square."""

NULL = (0.025, 0.975)
"""Quantiles of a null that are written with its mean."""


def directions_of_overlap(overlap: float, neurons: int) -> float:
    """Return the participation ratio of N columns with a mean absolute cosine and shape ratio 1.

    Examples
    --------
    >>> [round(directions_of_overlap(value, 512)) for value in (0.0562, 0.1270)]
    [145, 37]
    """
    return neurons / (1 + (neurons - 1) * (overlap / GAUSSIAN) ** 2)


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
        `spectral_measures` without ``mean_abs_cosine`` (see `measures`). With rotations there is
        also a row for every metric of `spectral_measures` with the suffix ``_rotated``: the
        `null_summary` of the rotated bases.

    Raises
    ------
    ValueError
        If a column is zero or not finite.
    """
    unit_columns(projection)  # raises
    raw = np.asarray(projection, dtype=np.float64)
    raw_gram, neurons = raw.T @ raw, raw.shape[1]
    measured = spectral_measures(raw_gram)
    rows: list[Row] = [
        {"metric": metric, "value": value}
        for metric, value in measured.items()
        if metric != "mean_abs_cosine"
    ]
    null = [spectral_measures(turn.T @ raw_gram @ turn) for turn in rotations]
    for metric, quantity in measured.items() if null else ():
        values = [each[metric] for each in null]
        rows.append({"metric": f"{metric}_rotated", **null_summary(values, quantity)})
    return [{**row, "n": neurons * (neurons - 1)} for row in rows]
