"""Measures of trained encoders: numbers and cosines of figures 1, 3 and 4, mixing, and maps."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from mispair.simulation.study import AT_LEAST

HISTOGRAM_BINS = 50


@dataclass(frozen=True)
class Purified:
    """Number of features that some neuron is purified for, by one of two definitions.

    ``features`` counts distinct features, ``magnitude`` is how well their neurons are aligned (0
    without any), by `purified` or `purified_as_written`. A neuron counts as aligned with a feature
    if their cosine exceeds ``threshold``.
    """

    features: int
    magnitude: float
    threshold: float


def projections(weights: Tensor, rows: Tensor) -> np.ndarray:
    """Return the inner products (m, d) of neurons (m, d1) with features (d, d1)."""
    return (weights @ rows.T).double().numpy()


def alignments(weights: Tensor, rows: Tensor) -> np.ndarray:
    """Return the absolute cosines (m, d) of neurons (m, d1) with orthonormal features (d, d1).

    A neuron of zeros has cosine 0 with everything.
    """
    norms = weights.double().norm(dim=1, keepdim=True).numpy()
    return np.abs(projections(weights, rows)) / np.where(norms > 0, norms, 1)


def top_two(cosines: np.ndarray) -> np.ndarray:
    """Return each neuron's largest and second largest absolute cosine (m, 2), of (m, d)."""
    return np.sort(cosines, axis=1)[:, :-3:-1]


def purified(
    cosines: np.ndarray, low: float = 0.2, high: float = 1.0, step: float = 0.05
) -> Purified:
    """Count purified features as the public code does.

    A neuron is purified at a threshold if exactly one of its absolute cosines (`cosines`, (m, d))
    exceeds it. The threshold is the one of ``low``, ``low + step``, ... up to ``high`` with the
    most distinct features, or the lowest of several such. The magnitude is the sum of the purified
    neurons' cosines divided by the number of features. All neurons of a feature count in the sum,
    so it can exceed 1.

    Examples
    --------
    Neuron 0 is mixed at 0.2 and pure at 0.3; neurons 1 and 2 share a feature.

    >>> cosines = np.array([[0.25, 0.6, 0.0], [0.9, 0.0, 0.1], [0.8, 0.1, 0.1]])
    >>> result = purified(cosines, 0.2, 1.0, 0.1)
    >>> result.features, round(result.magnitude, 3), result.threshold
    (2, 1.15, 0.3)
    """
    best = Purified(0, 0.0, low)
    for index in range(int((high - low) / step + 1e-9) + 1):
        threshold = round(low + index * step, 10)
        above = cosines > threshold
        pure = above.sum(axis=1) == 1
        features = len(np.unique(above[pure].argmax(axis=1)))
        if features > best.features:
            total = float(cosines[pure][above[pure]].sum())
            best = Purified(features, total / features, threshold)
    return best


def purified_as_written(cosines: np.ndarray, threshold: float = 0.5) -> Purified:
    """Count purified features as the paper's text does (section 5.1, figures 1a and 1b).

    A neuron is purified for the feature on which its projection is largest, if their absolute
    cosine (`cosines`, (m, d)) exceeds the threshold. Distinct features are counted; the magnitude
    is the mean, over all purified neurons, of their largest absolute cosine.

    Examples
    --------
    Neuron 0 exceeds the threshold twice and counts for its largest cosine; neuron 2 never does.

    >>> cosines = np.array([[0.7, 0.6, 0.0], [0.9, 0.0, 0.1], [0.4, 0.1, 0.1]])
    >>> result = purified_as_written(cosines)
    >>> result.features, round(result.magnitude, 3)
    (1, 0.8)
    """
    largest = cosines.max(axis=1)
    pure = largest > threshold
    features = len(np.unique(cosines[pure].argmax(axis=1)))
    return Purified(features, float(largest[pure].mean()) if features else 0.0, threshold)


def zero_shot_accuracy(
    features: Tensor,
    prompts: Tensor,
    labels: Tensor,
    similarity: Literal["cosine", "inner"] = "cosine",
) -> float:
    """Return the share of images whose most similar prompt is that of their class.

    Features of images are (n, m), those of the prompts (classes, m), labels (n,). Ties go to the
    first class; vectors of zeros are equally similar to everything. The similarity ``inner`` is
    argmax_k <f(x), h(y_k)> of the text (section 2.2); ``cosine`` normalises vectors first, as the
    public code does. They differ only by the prompts' norms.
    """
    if similarity == "cosine":
        features, prompts = _unit(features), _unit(prompts)
    return float(((features @ prompts.T).argmax(dim=1) == labels).double().mean())


def cosine_silhouette(features: Tensor, labels: Tensor) -> float:
    """Return the mean silhouette of labelled vectors (n, m) under the cosine distance 1 - cos.

    For each vector, a is the mean distance to the others of its class and b the least mean distance
    to another class; its silhouette is (b - a) / max(a, b), and 0 if it is alone in its class. A
    vector of zeros has distance 1 to every other. NaN with fewer than two classes. This equals
    ``sklearn.metrics.silhouette_score(features, labels, metric="cosine")``.
    """
    classes, index, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        return float("nan")
    unit = _unit(features.double())
    members = torch.nn.functional.one_hot(index).double()
    # Mean distances follow from the classes' sums of unit vectors, without an n x n matrix.
    to_class = sizes - unit @ (members.T @ unit).T
    cohesion = to_class.gather(1, index[:, None])[:, 0] - (1 - unit.square().sum(dim=1))
    alone = sizes[index] == 1
    a = cohesion / (sizes[index] - 1).clamp(min=1)
    b = (to_class / sizes).masked_fill(members.bool(), float("inf")).amin(dim=1)
    scores = (b - a) / torch.maximum(a, b)
    return float(torch.where(alone, 0.0, scores).nan_to_num(0.0).mean())


def histogram(cosines: np.ndarray) -> np.ndarray:
    """Count absolute cosines (m, d) in `HISTOGRAM_BINS` equal bins from 0 to 1."""
    return np.histogram(cosines.clip(0, 1), bins=HISTOGRAM_BINS, range=(0, 1))[0]


def _unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors, dim=1)


# Which features neuron pairs learn together (Theorems 4.2 and 4.4).
#
# The theorems write both halves of a neuron pair with the same coefficients (Eqs. 12 and 14)::
#
#     w_i = Σ_j α_ij M_j + r_i,    v_i = Σ_j α_ij H_j + s_i,
#
# over the two features of a spurious pair on raw data, and over one feature on filtered data.
# Given the features, |r_i|² + |s_i|² is least for α_ij = (<w_i, M_j> + <v_i, H_j>) / 2, and each
# term then explains 2 α_ij² of |w_i|² + |v_i|², because the dictionaries are orthonormal.


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
    either = spurious.bool().numpy()
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
    return weights.double().square().sum(dim=1).numpy()


# Shares of captions with the image's features, and with spurious ones (Theorem 4.3, Eq. 13).


def decode(captions: Tensor, rows: Tensor, threshold: float = 0.5) -> Tensor:
    """Return the codes (n, d) that captions y = H z + noise (n, d1) show.

    ẑ_j = sign(<y, H_j>) if |<y, H_j>| > threshold, and 0 otherwise; `rows` are Hᵀ (d, d1). With the
    threshold 1/2, ẑ is the code whose entries 0 and ±1 are nearest to the projections. Raw captions
    do not need this: their codes are given, and noise of standard deviation 0.24 would turn 4 % of
    zeros into ones.

    The threshold 1/2 reads Eq. 13's z = 1 literally. A decoder whose captions are shorter than true
    ones then appears to leave features out. The cosines of S3 do not depend on a caption's length,
    and neither does a threshold of half of `scale`.
    """
    shown = captions @ rows.T
    return shown.sign() * (shown.abs() > threshold)


def scale(captions: Tensor, rows: Tensor, image_codes: Tensor) -> float:
    """Return the length at which captions show the features that their images have.

    This is the (lower) median of z_x^j <y, H_j> over all images and their active features j. It is
    1 for captions y = H z_x without noise, and NaN where no feature is active.
    """
    shown = ((captions @ rows.T) * image_codes)[image_codes != 0]
    return float(shown.median()) if len(shown) else float("nan")


def caption_statistics(
    image_codes: Tensor, text_codes: Tensor, spurious: Tensor
) -> dict[str, float]:
    """Estimate the two probabilities of Eq. 13 from the codes of images and their captions.

    Parameters
    ----------
    image_codes, text_codes : Tensor (n, d)
        z_x and z_y (or `decode` of a caption), with entries -1, 0 and 1.
    spurious : Tensor (d, d) of bool
        Whether j' (column) is in the spurious set of j (row); the diagonal is ignored.

    Returns
    -------
    dict of str to float
        Shares, NaN where there is nothing to count:

        ``caption_true``
            of active image features j, those that the caption has with the same sign. This is
            Eq. 13's first probability; its z = 1 is read as z_x^j for features that may be -1.
        ``caption_spurious``
            of pairs (j, j'), those whose caption has j' with either sign. Feature j is active in
            the image, and j' is in its spurious set and not active. This is Eq. 13's second
            probability. Over a set of K - 1 features it is about C_s / (K - 1) in raw captions.
    """
    sets = spurious.bool() & ~torch.eye(len(spurious), dtype=torch.bool)
    members = sets.double()
    active = image_codes != 0
    added = (text_codes != 0) & ~active
    kept = (text_codes == image_codes) & active
    # For (image, j'): the number of active features with j' in their set; 0 if j' is active.
    chances = (active.double() @ members) * ~active
    return {
        "caption_true": _share(kept.sum(), active.sum()),
        "caption_spurious": _share((chances * added).sum(), chances.sum()),
    }


def _share(part: Tensor, whole: Tensor) -> float:
    return float(part) / float(whole) if whole > 0 else float("nan")
