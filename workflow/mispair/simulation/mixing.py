"""Which features neuron pairs learn together (Theorems 4.2 and 4.4).

The theorems write both halves of a neuron pair with the same coefficients (Eqs. 12 and 14)::

    w_i = Σ_j α_ij M_j + r_i,    v_i = Σ_j α_ij H_j + s_i,

over the two features of a spurious pair on raw data, and over one feature on filtered data. Given
the features, |r_i|² + |s_i|² is least for α_ij = (<w_i, M_j> + <v_i, H_j>) / 2, and each term then
explains 2 α_ij² of |w_i|² + |v_i|², because the dictionaries are orthonormal.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from mispair.simulation.definitions import AT_LEAST
from mispair.simulation.metrics import projections


def mixing(
    image_weights: Tensor,
    text_weights: Tensor,
    image_rows: Tensor,
    text_rows: Tensor,
    spurious: Tensor,
) -> dict[str, float]:
    """Return what neuron pairs have learned by their two largest |α|, by metric.

    Neurons w_i and v_i are (m, d1); `image_rows` and `text_rows` are Mᵀ and Hᵀ (d, d1) with
    orthonormal rows. `spurious` (d, d) is true where j' (column) is in the spurious set of j (row).
    Either direction makes {j, j'} a spurious pair; the diagonal is ignored.

    Returns
    -------
    dict of str to float
        Shares of |w_i|² + |v_i|² are means over neuron pairs; one of zeros explains nothing (shares
        0, residuals 1).

        ``alpha_share``, ``second_alpha_share``
            2 α² of the first and of the second feature: 1 and 0 for a purified neuron pair without
            residual, 1/2 and 1/2 for an even mixture.
        ``residual_share``
            |r_i|² + |s_i|² after both terms are subtracted (Eq. 12).
        ``residual_share_pure``
            The same after only the first term is subtracted (Eq. 14).
        ``mixed_neurons``
            Share of mixed neuron pairs: the second |α| is at least `AT_LEAST` of the first, and the
            two features are spuriously correlated. A random neuron pair nearly always has the first
            property. The share for untrained encoders is thus the share of spurious pairs among all
            pairs of features. NaN if there are no spurious pairs.
        ``mixed_pairs_covered``
            Share of spuriously correlated pairs {j, j'} that some neuron pair mixes; 1 by the last
            sentence of Theorem 4.2. NaN if there are no such pairs.
    """
    alphas = (projections(image_weights, image_rows) + projections(text_weights, text_rows)) / 2
    features = np.argsort(-np.abs(alphas), axis=1, kind="stable")[:, :2]
    alphas = np.take_along_axis(alphas, features, axis=1)
    energy = _energies(image_weights) + _energies(text_weights)
    shares = 2 * alphas**2 / np.where(energy > 0, energy, 1)[:, None]
    either = spurious.bool().cpu().numpy()
    pairs = (either | either.T) & ~np.eye(len(either), dtype=bool)
    first, second = np.abs(alphas).T
    mixed = (first > 0) & (second >= AT_LEAST * first) & pairs[features[:, 0], features[:, 1]]
    covered = np.zeros_like(pairs)
    covered[features[mixed, 0], features[mixed, 1]] = True
    covered |= covered.T
    return {
        "alpha_share": float(shares[:, 0].mean()),
        "second_alpha_share": float(shares[:, 1].mean()),
        "residual_share": float((1 - shares.sum(axis=1)).mean()),
        "residual_share_pure": float((1 - shares[:, 0]).mean()),
        "mixed_neurons": float(mixed.mean()) if pairs.any() else float("nan"),
        "mixed_pairs_covered": float(covered.sum() / pairs.sum()) if pairs.any() else float("nan"),
    }


def _energies(weights: Tensor) -> np.ndarray:
    return weights.double().square().sum(dim=1).cpu().numpy()
