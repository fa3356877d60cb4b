"""The monosemanticity score: how alike the inputs are that activate a neuron.

For a neuron with activations a_i, scaled to [0, 1], and unit embeddings e_i of the inputs in
another encoder, the score is the mean cosine of all pairs of different inputs, each weighted by the
product of its two activations (Pach et al. 2025, "Sparse autoencoders learn monosemantic features
in vision-language models", NeurIPS). The sum over pairs has a closed form,

    (|Σ a_i e_i|² - Σ a_i²) / ((Σ a_i)² - Σ a_i²),

so n inputs need n products instead of n². A scaled neuron of a dense basis is active for all
inputs, and its score is near the mean cosine of all pairs. Scores are compared with two nulls:
rotated bases, and embeddings that are shuffled among the inputs.
"""

from __future__ import annotations

import numpy as np


def scaled(activations: np.ndarray) -> np.ndarray:
    """Return the activations of each neuron, (n, k), moved and scaled to [0, 1]; constant ones 0.

    The result has the type of the activations.
    """
    low, high = activations.min(axis=0), activations.max(axis=0)
    return (activations - low) / np.where(high > low, high - low, 1)


def unit_rows(embeddings: np.ndarray) -> np.ndarray:
    """Return embeddings (n, d) at length one; rows of zeros stay."""
    norms = np.linalg.norm(embeddings, axis=1, keepdims=True)
    return embeddings / np.where(norms > 0, norms, 1)


def monosemanticity(activations: np.ndarray, embeddings: np.ndarray) -> np.ndarray:
    """Return the score of each neuron, (k,).

    Parameters
    ----------
    activations : (n, k) array
        Scaled to [0, 1], as `scaled` does.
    embeddings : (n, d) array
        Of the same inputs in the encoder that judges how alike they are, at length one or zero.

    Returns
    -------
    (k,) float64 array
        Between −1 and 1; NaN for a neuron that no pair of inputs activates.
    """
    sums = activations.T @ embeddings
    total = activations.sum(axis=0, dtype=np.float64)
    squares = np.square(activations)
    # An input of length zero has no cosine with itself to subtract.
    lengths = np.square(embeddings).sum(axis=1)
    among = np.square(sums, dtype=np.float64).sum(axis=1) - squares.T @ lengths
    weights = total**2 - squares.sum(axis=0, dtype=np.float64)
    return np.divide(among, weights, out=np.full(len(weights), np.nan), where=weights > 0)
