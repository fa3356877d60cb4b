"""How much the features that wrong captions link are mixed in an embedding, and in which basis.

The scheme `spurious` of `corrupt_captions` replaces a feature by its partner: always the same one,
of the same kind (`mispair.pairs.scenes.scene_captions.spurious_partners`). A circle captioned
"circle" or "star" and a star captioned "star" or "heart" then share the caption "star". So the
features that are *linked* to feature j are its partner and the feature whose partner it is.

The mixing score of feature j is

    mean over linked k of s corr(u, k)  −  mean over other k of s corr(u, k),

where u is the component of an embedding that follows j, and s is the sign of corr(u, j). The other
features are all values of the same kind that are neither j nor linked to it. Values of one kind
exclude each other in most pictures, so their correlations are below zero; the difference cancels
this. Kinds with fewer than four values have no other feature and are left out. The partners are
drawn at random, so the score is zero on average where captions link nothing. For one draw of
partners it also measures how alike linked values look. A tower trained on right captions of the
same pictures measures this too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mispair.evaluation.purity import random_rotation

RIDGE = 1e-4
"""Penalty of linear readouts, as a share of the mean variance of the coordinates."""

Sample = tuple[np.ndarray, np.ndarray]
"""Embeddings (n, e) and true features (n, f) of the same inputs."""


@dataclass(frozen=True)
class LinkedFeature:
    """A feature j, its linked features and the other values of its kind, as columns."""

    feature: int
    linked: tuple[int, ...]
    others: tuple[int, ...]


class Mixing(NamedTuple):
    """The score of a basis, a mean over features.

    Attributes
    ----------
    score : float
        Mean mixing score.
    linked, others : float
        The two means whose difference is the score.
    recovery : float
        Mean correlation of the components with the features that they follow.
    features : int
        Number of features.
    """

    score: float
    linked: float
    others: float
    recovery: float
    features: int


def comparisons(
    features: Sequence[str], partners: Mapping[str, str], varying: Sequence[bool] | None = None
) -> list[LinkedFeature]:
    """Return what is compared, for every feature with linked and other features.

    Parameters
    ----------
    features : sequence of str
        Names ``kind:value`` of the columns of the true features.
    partners : mapping of str to str
        The feature that each feature is linked to.
    varying : sequence of bool, optional
        Which columns vary; features that do not are left out.

    Examples
    --------
    >>> names = [f"digit:{value}" for value in "abcde"]
    >>> circle = {names[i]: names[(i + 1) % 5] for i in range(5)}
    >>> comparisons(names, circle)[0]
    LinkedFeature(feature=0, linked=(1, 4), others=(2, 3))
    """
    kept = [(j, name) for j, name in enumerate(features) if varying is None or varying[j]]
    compared = []
    for j, name in kept:
        rest = [(k, other) for k, other in kept if k != j]
        linked = tuple(k for k, other in rest if name == partners.get(other)
                       or other == partners.get(name))  # fmt: skip
        kind = name.split(":")[0]
        others = tuple(k for k, other in rest if other.split(":")[0] == kind and k not in linked)
        if linked and others:
            compared.append(LinkedFeature(j, linked, others))
    return compared


def mixing(
    directions: np.ndarray,
    chosen_on: Sample,
    scored_on: Sample,
    compared: Sequence[LinkedFeature],
    matched: bool = False,
) -> Mixing:
    """Return the mixing score of a basis.

    Parameters
    ----------
    directions : (e, k) array
        Directions of the components. A component is the product of an embedding with one.
    chosen_on : Sample
        Sample on which the component of each feature is chosen: the one of largest |correlation|,
        with its sign.
    scored_on : Sample
        Sample of other inputs, on which correlations are measured.
    compared : sequence of LinkedFeature
        Features to average over.
    matched : bool
        Component j belongs to feature j already, with its sign; then nothing is chosen.

    Raises
    ------
    ValueError
        If there is nothing to compare.
    """
    if not compared:
        raise ValueError("no feature has both linked and other features of its kind")
    scored = correlations(directions, *scored_on)
    if matched:
        units, signs = np.arange(scored.shape[1]), np.ones(scored.shape[1])
    else:
        chosen = correlations(directions, *chosen_on)
        units = np.abs(chosen).argmax(axis=0)
        signs = np.sign(chosen[units, np.arange(chosen.shape[1])])
    rows = []
    for each in compared:
        aligned = signs[each.feature] * scored[units[each.feature]]
        rows.append(
            (aligned[[*each.linked]].mean(), aligned[[*each.others]].mean(), aligned[each.feature])
        )
    linked, others, recovery = np.mean(rows, axis=0).tolist()
    return Mixing(linked - others, linked, others, recovery, len(rows))


def cross_fitted(parts: Sequence[Mixing]) -> Mixing:
    """Return the mean of scores with the halves of a sample in either role."""
    score, linked, others, recovery = np.mean([part[:-1] for part in parts], axis=0).tolist()
    return Mixing(score, linked, others, recovery, parts[0].features)


def readouts(sample: Sample) -> np.ndarray:
    """Return the direction of each true feature by ridge regression on a sample, (e, f).

    The penalty is `RIDGE` times the mean variance of the coordinates; the intercept has none.
    Without a penalty, directions in which an embedding hardly varies get large coefficients, and a
    few inputs of the other half that do vary there dominate all correlations.
    """
    embeddings, features = (np.asarray(part, dtype=np.float64) for part in sample)
    centred = embeddings - embeddings.mean(axis=0)
    within = centred.T @ centred / len(centred)
    penalty = RIDGE * np.trace(within) / len(within)
    across = centred.T @ (features - features.mean(axis=0)) / len(centred)
    fitted: np.ndarray = np.linalg.solve(within + penalty * np.eye(len(within)), across)
    return fitted


def centred_by_kind(directions: np.ndarray, features: Sequence[str]) -> np.ndarray:
    """Return directions (e, f) of features ``kind:value`` less the mean over each kind."""
    kinds = np.array([name.split(":")[0] for name in features])
    means = [directions[:, kinds == kind].mean(axis=1) for kind in kinds]
    return directions - np.stack(means, axis=1)


# A basis of an embedding that the embedding's own distribution identifies.
#
# The neurons of a projection are one basis of many: a rotation of both towers' embeddings changes
# the neurons and no similarity. If an embedding is a linear mixture of independent, sparse sources,
# one basis is special: its whitened components are the sources themselves, up to order and sign
# (Comon 1994, Signal Processing 36, 287). Varimax searches for it among the rotations of the first
# K principal components at variance one: the largest sum of the variances of squared components
# (Kaiser 1958, Psychometrika 23, 187). Applied to whitened principal components it is an estimator
# of sparse independent sources (Rohe and Zeng 2023, Journal of the Royal Statistical Society B 85,
# 1037).
#
# A basis is an (e, k) matrix of directions; component j of an embedding x is its product with
# direction j. All measures are correlations, so neither means nor lengths matter. Bases are fitted
# on one half of the inputs and scored on the other. For Gaussian sources every rotation has the
# same distribution, and no search can do better than a random one.

ITERATIONS = 500
"""Most iterations of the search."""

SMALLEST_VARIANCE = 1e-12
"""Principal components with a smaller share of the largest variance cannot be whitened."""


def varimax(scores: np.ndarray, start: np.ndarray, tolerance: float = 1e-6) -> np.ndarray:
    """Return the rotation of components at which the variances of their squares sum to the most.

    Parameters
    ----------
    scores : (n, K) array
        Centred components at variance one.
    start : (K, K) array
        Orthogonal matrix from which the search starts. Searches that identify nothing agree only
        by chance if their matrices are independent.
    tolerance : float
        The search ends when an iteration raises the sum of singular values by a smaller share.

    Returns
    -------
    (K, K) array
        Orthogonal; whitened components times the matrix are the rotated components.

    Notes
    -----
    An iteration takes the orthogonal polar factor of the gradient ``Z' (Y^3 - Y diag(mean Y^2))``
    with ``Y = Z R``, as R's ``stats::varimax`` does (Jennrich 2001, Psychometrika 66, 289). Rows
    are not normalised.
    """
    rotation, before = start, 0.0
    for _ in range(ITERATIONS):
        rotated = scores @ rotation
        squares = rotated**2
        gradient = scores.T @ (rotated * (squares - squares.mean(axis=0))) / len(scores)
        left, values, right = np.linalg.svd(gradient)
        rotation, total = left @ right, float(values.sum())
        if total <= before * (1 + tolerance):
            break
        before = total
    return rotation


def halves(size: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of two random halves of `size` inputs, each in ascending order."""
    order = generator.permutation(size)
    return np.sort(order[: size // 2]), np.sort(order[size // 2 :])


def whitened_directions(embeddings: np.ndarray, components: int) -> np.ndarray:
    """Return the first principal components of a sample, scaled to variance one.

    Parameters
    ----------
    embeddings : (n, e) array
        A sample.
    components : int
        K, at most e.

    Returns
    -------
    (e, K) float64 array
        The centred sample times this has the identity as its covariance (sums over n).

    Raises
    ------
    ValueError
        If the sample varies in fewer than K directions.
    """
    if not 1 <= components <= embeddings.shape[1]:
        raise ValueError(
            f"{components} principal components of an embedding of width {embeddings.shape[1]}"
        )
    variances, vectors = np.linalg.eigh(_covariance(embeddings))
    variances, vectors = variances[::-1][:components], vectors[:, ::-1][:, :components]
    if variances[-1] <= SMALLEST_VARIANCE * max(variances[0], 0):
        raise ValueError(f"{len(embeddings)} embeddings vary in fewer than {components} directions")
    return vectors / np.sqrt(variances)


def _covariance(left: np.ndarray, right: np.ndarray | None = None) -> np.ndarray:
    """Return the covariances of the columns of two samples of the same n inputs, or of one."""
    deviations = _centred(left)
    return deviations.T @ (deviations if right is None else _centred(right)) / len(left)


def _centred(sample: np.ndarray) -> np.ndarray:
    sample = np.asarray(sample, dtype=np.float64)
    return sample - sample.mean(axis=0)


def correlations(
    directions: np.ndarray, embeddings: np.ndarray, features: np.ndarray
) -> np.ndarray:
    """Return the correlation of every component with every feature, (k, f).

    Parameters
    ----------
    directions : (e, k) array
        A basis.
    embeddings : (n, e) array
        A sample.
    features : (n, f) array
        Features of the same inputs. One that does not vary correlates with nothing: 0.
    """
    within, across = _covariance(embeddings), _covariance(embeddings, features)
    spread = np.std(features, axis=0, dtype=np.float64)
    scale = np.sqrt(np.einsum("ek,ek->k", directions, within @ directions))[:, None] * spread
    products = directions.T @ across
    return np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)


class Identified(NamedTuple):
    """Result of a search on the two halves of a sample.

    Attributes
    ----------
    bases : (2, e, K) array
        Directions that were fitted on the first and on the second half. Their arbitrary sign is
        chosen so that components are skewed to the right, as sparse sources above zero are.
    recovery : (f,) array
        Largest absolute correlation of each true feature with a component: the mean over both
        bases, each measured on the half on which it was not fitted.
    """

    bases: np.ndarray
    recovery: np.ndarray


def identify(
    embeddings: np.ndarray,
    split: tuple[np.ndarray, np.ndarray],
    components: int,
    generator: np.random.Generator,
    features: np.ndarray,
) -> Identified:
    """Search for a basis on each half of a sample, and score it on the other.

    Parameters
    ----------
    embeddings : (n, e) array
        A sample.
    split : two arrays of int
        Rows of the two halves, as `halves` returns them.
    components : int
        K: the search is among rotations of the first K principal components.
    generator : numpy.random.Generator
        Draws the starts of the searches.
    features : (n, f) array
        True features of the inputs.
    """
    parts = [embeddings[rows] for rows in split]
    whitened = [whitened_directions(part, components) for part in parts]
    # Single precision halves the time of the searches.
    scores = [
        (_centred(part) @ white).astype(np.float32)
        for part, white in zip(parts, whitened, strict=True)
    ]
    starts = [random_rotation(components, generator).astype(np.float32) for _ in parts]
    bases = []
    for white, part, start in zip(whitened, scores, starts, strict=True):
        rotation = varimax(part, start)
        skew = ((part @ rotation) ** 3).mean(axis=0)
        bases.append(white @ rotation * np.where(skew < 0, -1.0, 1.0))
    best = [
        np.abs(correlations(basis, embeddings[rows], features[rows])).max(axis=0)
        for basis, rows in zip(bases, reversed(split), strict=True)
    ]
    return Identified(np.stack(bases), np.mean(best, axis=0))
