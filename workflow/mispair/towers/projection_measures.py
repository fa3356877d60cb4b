"""Measures of projections besides their cosines: overlap of activations, and the logit scale."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# How much the activations of neurons overlap: correlations in the metric of the features.
#
# The activation of neuron j is ``x · v_j`` with x the feature before the projection, v_j a column
# of it. The correlation of two activations is the cosine of the columns in the metric of the
# covariance C of the features: ``v_i' C v_j / sqrt(v_i' C v_i · v_j' C v_j)``. The plain cosine
# also measures directions in which features do not vary. The remainder of a random start in those
# directions changes the cosine, but no activation.

DEFINITION = (
    "The mean |correlation| of activations is the mean over pairs of neurons of the absolute "
    "Pearson correlation of x·vᵢ and x·vⱼ over the features x of the corpus (of distinct images "
    "or captions) before the projection."
)
"""The measure in words, for the documentation."""


class Covariance:
    """Covariance of vectors, from one pass over blocks of them.

    Parameters
    ----------
    width : int
        Length d of the vectors.
    """

    def __init__(self, width: int) -> None:
        self.size = 0
        self._mean, self._products = np.zeros(width), np.zeros((width, width))

    def add(self, block: np.ndarray) -> None:
        """Add a block of vectors (m, d).

        Sums of two samples are combined as by Chan, Golub and LeVeque (1983, The American
        Statistician 37, 242), which loses no digits to large means.
        """
        rows = np.asarray(block, np.float64)
        mean, total = rows.mean(axis=0), self.size + len(rows)
        deviations, shift = rows - mean, mean - self._mean
        self._products += deviations.T @ deviations
        self._products += np.outer(shift, shift) * (self.size * len(rows) / total)
        self._mean += shift * (len(rows) / total)
        self.size = total

    def matrix(self) -> np.ndarray:
        """Return the covariance (d, d), divided by the number of vectors.

        Raises
        ------
        ValueError
            If there are fewer than two vectors.
        """
        if self.size < 2:
            raise ValueError(f"{self.size} vectors have no covariance")
        return self._products / self.size


def mean_abs_correlation(projection: np.ndarray, covariance: np.ndarray) -> float:
    """Return the mean absolute correlation of the activations of different neurons.

    The projection (d, e) has a neuron in each column; the covariance (d, d) is that of the features
    before it.

    Raises
    ------
    ValueError
        If widths do not match, or an activation does not vary.
    """
    if covariance.shape != (len(projection),) * 2:
        raise ValueError(
            f"the covariance is of {len(covariance)} features, the projection has {len(projection)}"
        )
    columns = np.asarray(projection, np.float64)
    products = columns.T @ covariance @ columns
    variance = np.diag(products)
    if not (variance > 0).all():
        raise ValueError(f"the activation of neuron {int(np.argmin(variance))} does not vary")
    deviation = np.sqrt(variance)
    correlations = np.abs(products / deviation / deviation[:, None])
    neurons = len(correlations)
    return float((correlations.sum() - neurons) / (neurons * (neurons - 1)))


# Whether a logit scale converged, and rows of it and of the cosine gap after a fine-tuning.

MEASURES = {
    "cosine_gap": "cosine_gap",
    "logit_scale_drift": "logit_scale_drift",
    "logit_scale_newton_step": "logit_scale_newton_step",
}
"""Tensors of a projection file that become rows unchanged, by the name of the row."""


LARGEST_DRIFT = 5e-3
"""Change of the log scale over the last epoch from which it counts as not converged."""

LARGEST_NEWTON_STEP = 0.01
"""Distance of the log scale to its optimum from which it counts as not converged.

By the drift alone, any scale whose learning rate has fallen to 0 would count as converged. Both
conditions are necessary and not sufficient: projections also adapt to a frozen scale until it is
close to the minimum of the loss. Only a scale that is solved for before the projections move, and
after each epoch, shows projections that need not adapt.
"""


def converged(drift: np.ndarray, newton_step: np.ndarray) -> np.ndarray:
    """Return whether log scales are at rest and at the minimum of the loss.

    Parameters
    ----------
    drift : (s,) array
        Absolute change of the log scale over the last epoch.
    newton_step : (s,) array
        Newton's step of the log scale at the final projections; NaN counts as not at the minimum.

    Examples
    --------
    >>> converged(np.array([0.0, 0.0, 0.01]), np.array([0.0, 0.1, 0.0]))
    array([ True, False, False])
    """
    return (drift < LARGEST_DRIFT) & (np.abs(newton_step) < LARGEST_NEWTON_STEP)


def temperature_rows(
    tensors: Mapping[str, np.ndarray], seeds: Sequence[int]
) -> list[dict[str, Any]]:
    """Return the final logit scale, whether it converged, and the cosine gap of every seed.

    The tensors (s, ...) are those of a projection file; one that was not fine-tuned has the logit
    scale only. Rows have ``metric``, ``seed`` and ``value``: ``logit_scale`` (the factor, not its
    log) and, after a fine-tuning, `MEASURES`, ``logit_scale_converged`` (0 or 1) and
    ``gap_times_scale``. Missing values, such as a gap without a pair that keeps its caption, have
    no row.
    """
    scale = np.exp(np.asarray(tensors["logit_scale"], np.float64))
    values = {"logit_scale": scale}
    if "cosine_gap" in tensors:
        values |= {row: np.asarray(tensors[name], float) for row, name in MEASURES.items()}
        steps = (values["logit_scale_drift"], values["logit_scale_newton_step"])
        values["logit_scale_converged"] = converged(*steps).astype(float)
        values["gap_times_scale"] = values["cosine_gap"] * scale
    return [
        {"metric": metric, "seed": seed, "value": float(value)}
        for metric, stack in values.items()
        for seed, value in zip(seeds, stack, strict=True)
        if np.isfinite(value)
    ]
