"""Whether a logit scale converged, and rows of it and of the cosine gap after a fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

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
