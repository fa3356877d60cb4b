"""Which features neuron pairs learn together (Theorems 4.2 and 4.4).

The theorems write both halves of a neuron pair with the same coefficients (Eqs. 12 and 14)::

    w_i = Σ_j α_ij M_j + r_i,    v_i = Σ_j α_ij H_j + s_i,

over the two features of a spurious pair on raw data, and over one feature on filtered data. Given
the features, |r_i|² + |s_i|² is least for α_ij = (<w_i, M_j> + <v_i, H_j>) / 2, and each term then
explains 2 α_ij² of |w_i|² + |v_i|², because the dictionaries are orthonormal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from mispair.simulation.definitions import AT_LEAST
from mispair.simulation.metrics import projections


@dataclass(frozen=True)
class Mixing:
    """What each of the m neuron pairs has learned, by its two largest |α|.

    Shares are of |w_i|² + |v_i|²; a neuron pair of zeros explains nothing (shares 0, residuals 1).

    Attributes
    ----------
    features : ndarray (m, 2) of int
        The features with the largest and the second largest |α|.
    alphas : ndarray (m, 2)
        Their α, with sign.
    alpha_share, second_alpha_share : ndarray (m,)
        2 α² / (|w_i|² + |v_i|²) of either: 1 and 0 for a purified neuron pair without residual,
        1/2 and 1/2 for an even mixture.
    residual_share : ndarray (m,)
        (|r_i|² + |s_i|²) / (|w_i|² + |v_i|²) after both terms are subtracted (Eq. 12).
    residual_share_pure : ndarray (m,)
        The same after only the first term is subtracted (Eq. 14).
    mixed : ndarray (m,) of bool
        Whether the second |α| is at least `AT_LEAST` of the first and the two features are
        spuriously correlated. A random neuron pair nearly always has the first property. The mean
        for untrained encoders is thus the share of spurious pairs among all pairs of features.
        False for every neuron pair if there are no spurious pairs; the mean is then NaN.
    pairs_covered : float
        Share of spuriously correlated pairs {j, j'} that some neuron pair mixes; 1 by the last
        sentence of Theorem 4.2. NaN if there are no such pairs.
    """

    features: np.ndarray
    alphas: np.ndarray
    alpha_share: np.ndarray
    second_alpha_share: np.ndarray
    residual_share: np.ndarray
    residual_share_pure: np.ndarray
    mixed: np.ndarray
    pairs_covered: float

    @property
    def share_mixed(self) -> float:
        """Share of neuron pairs that mix a spurious pair; NaN if there are no spurious pairs."""
        return float(self.mixed.mean()) if np.isfinite(self.pairs_covered) else float("nan")

    def means(self) -> dict[str, float]:
        """Return the means over neuron pairs, and the share of spurious pairs, by metric."""
        return {
            "alpha_share": float(self.alpha_share.mean()),
            "second_alpha_share": float(self.second_alpha_share.mean()),
            "residual_share": float(self.residual_share.mean()),
            "residual_share_pure": float(self.residual_share_pure.mean()),
            "mixed_neurons": self.share_mixed,
            "mixed_pairs_covered": self.pairs_covered,
        }


def mixing(
    image_weights: Tensor,
    text_weights: Tensor,
    image_rows: Tensor,
    text_rows: Tensor,
    spurious: Tensor,
) -> Mixing:
    """Return the two features that each neuron pair has learned most.

    Neurons w_i and v_i are (m, d1); `image_rows` and `text_rows` are Mᵀ and Hᵀ (d, d1) with
    orthonormal rows. `spurious` (d, d) is true where j' (column) is in the spurious set of j (row).
    Either direction makes {j, j'} a spurious pair; the diagonal is ignored.
    """
    alphas = (projections(image_weights, image_rows) + projections(text_weights, text_rows)) / 2
    features = np.argsort(-np.abs(alphas), axis=1, kind="stable")[:, :2]
    alphas = np.take_along_axis(alphas, features, axis=1)
    energy = _energies(image_weights) + _energies(text_weights)
    shares = 2 * alphas**2 / np.where(energy > 0, energy, 1)[:, None]
    pairs = _unordered(spurious)
    first, second = np.abs(alphas).T
    mixed = (first > 0) & (second >= AT_LEAST * first) & pairs[features[:, 0], features[:, 1]]
    covered = np.zeros_like(pairs)
    covered[features[mixed, 0], features[mixed, 1]] = True
    covered |= covered.T
    return Mixing(
        features=features,
        alphas=alphas,
        alpha_share=shares[:, 0],
        second_alpha_share=shares[:, 1],
        residual_share=1 - shares.sum(axis=1),
        residual_share_pure=1 - shares[:, 0],
        mixed=mixed,
        pairs_covered=float(covered.sum() / pairs.sum()) if pairs.any() else float("nan"),
    )


def _energies(weights: Tensor) -> np.ndarray:
    return weights.double().square().sum(dim=1).cpu().numpy()


def _unordered(spurious: Tensor) -> np.ndarray:
    either = spurious.bool().cpu().numpy()
    return (either | either.T) & ~np.eye(len(either), dtype=bool)
