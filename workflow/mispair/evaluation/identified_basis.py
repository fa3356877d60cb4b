"""A basis of an embedding that the embedding's own distribution identifies.

The neurons of a projection are one basis of many: a rotation of both towers' embeddings changes the
neurons and no similarity. If an embedding is a linear mixture of independent, sparse sources, one
basis is special: its whitened components are the sources themselves, up to order and sign (Comon
1994, Signal Processing 36, 287). Two searches look for it among the rotations of the first K
principal components at variance one:

- *varimax*: the largest sum of the variances of squared components (Kaiser 1958, Psychometrika 23,
  187). Applied to whitened principal components it is an estimator of sparse independent sources
  (Rohe and Zeng 2023, Journal of the Royal Statistical Society B 85, 1037).
- *ICA*: independent component analysis by FastICA with log cosh (Hyvärinen 1999, IEEE Transactions
  on Neural Networks 10, 626), as in scikit-learn.

A basis is an (e, k) matrix of directions; component j of an embedding x is its product with
direction j. All measures are correlations, so neither means nor lengths matter. Bases are fitted
on one half of the inputs and scored on the other. Random (Haar) rotations of the same whitened
components are the null: they are what a search that identifies nothing returns. For Gaussian
sources every rotation has the same distribution and no search can do better.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from mispair.evaluation.purity import random_rotation

# Searches among the rotations of whitened components: varimax and independent components.

ITERATIONS = 500
"""Most iterations of a search."""


Rotation = tuple[np.ndarray, bool]
"""An orthogonal (K, K) matrix, and whether the search ended before `ITERATIONS`.

Whitened components times the matrix are the rotated components.
"""


def varimax(
    scores: np.ndarray, start: np.ndarray, tolerance: float = 1e-6, most: int = ITERATIONS
) -> Rotation:
    """Rotate components until the variances of their squares have the largest sum.

    Parameters
    ----------
    scores : (n, K) array
        Centred components at variance one.
    start : (K, K) array
        Orthogonal matrix from which the search starts. Searches that identify nothing agree only
        by chance if their matrices are independent.
    tolerance : float
        The search ends when an iteration raises the sum of singular values by a smaller share.
    most : int
        Largest number of iterations.

    Notes
    -----
    An iteration takes the orthogonal polar factor of the gradient ``Z' (Y^3 - Y diag(mean Y^2))``
    with ``Y = Z R``, as R's ``stats::varimax`` does (Jennrich 2001, Psychometrika 66, 289). Rows
    are not normalised.
    """
    rotation, before = start, 0.0
    for _ in range(most):
        rotated = scores @ rotation
        squares = rotated**2
        gradient = scores.T @ (rotated * (squares - squares.mean(axis=0))) / len(scores)
        left, values, right = np.linalg.svd(gradient)
        rotation, total = left @ right, float(values.sum())
        if total <= before * (1 + tolerance):
            return rotation, True
        before = total
    return rotation, False


def ica(
    scores: np.ndarray, start: np.ndarray, tolerance: float = 1e-3, most: int = ITERATIONS
) -> Rotation:
    """Rotate components until they are as independent as possible by FastICA's contrast.

    Parameters and result are those of `varimax`; an iteration ends the search if it turns no
    component by more than ``1 - |cos| < tolerance``.
    """
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    search = FastICA(
        algorithm="parallel", whiten=False, fun="logcosh", w_init=start.T, tol=tolerance,
        max_iter=most,
    )  # fmt: skip
    with warnings.catch_warnings():
        # The result states whether it converged.
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(scores)
    return search.components_.T, int(search.n_iter_) < most


SEARCHES: Mapping[str, Callable[[np.ndarray, np.ndarray], Rotation]] = {
    "varimax": varimax,
    "ica": ica,
}
"""The searches by name."""


RECOVERED = 0.5
"""A feature counts as recovered if its best absolute correlation is above this."""

SMALLEST_VARIANCE = 1e-12
"""Principal components with a smaller share of the largest variance cannot be whitened."""


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
    variances, vectors = np.linalg.eigh(covariance(embeddings))
    variances, vectors = variances[::-1][:components], vectors[:, ::-1][:, :components]
    if variances[-1] <= SMALLEST_VARIANCE * max(variances[0], 0):
        raise ValueError(f"{len(embeddings)} embeddings vary in fewer than {components} directions")
    return vectors / np.sqrt(variances)


def usable_components(embeddings: np.ndarray, split: tuple[np.ndarray, np.ndarray]) -> int:
    """Return how many principal components both halves of a sample can whiten and rotate.

    At most as many as the embeddings vary in, and at most a quarter of the inputs of a half.
    """
    usable = []
    for rows in split:
        variances = np.linalg.eigvalsh(covariance(embeddings[rows]))
        varying = int((variances > SMALLEST_VARIANCE * max(variances[-1], 0)).sum())
        usable.append(min(varying, len(rows) // INPUTS_OF_A_COMPONENT))
    return min(usable)


def covariance(left: np.ndarray, right: np.ndarray | None = None) -> np.ndarray:
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
    return correlations_of(directions, *moments(embeddings, features))


def moments(
    embeddings: np.ndarray, features: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return covariances of embeddings (e, e), with features (e, f), and their deviations (f,)."""
    spread = np.std(features, axis=0, dtype=np.float64)
    return covariance(embeddings), covariance(embeddings, features), spread


def correlations_of(
    directions: np.ndarray, within: np.ndarray, across: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    """Return what `correlations` returns, from `moments` of the sample."""
    scale = np.sqrt(np.einsum("ek,ek->k", directions, within @ directions))[:, None] * spread
    products = directions.T @ across
    return np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)


def recovery(correlations: np.ndarray) -> np.ndarray:
    """Return the largest absolute correlation of each feature with a component, (f,).

    Parameters
    ----------
    correlations : (k, f) array
        Of components with features.
    """
    return np.abs(correlations).max(axis=0)


def linear_ceiling(
    embeddings: np.ndarray, features: np.ndarray, held_out: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Return how well a direction that is fitted to a feature correlates with it, (f,).

    This is the multiple correlation of each feature with all coordinates, by least squares on one
    sample, measured on another. No basis of the embedding can recover features better.

    Parameters
    ----------
    embeddings, features : (n, e) and (n, f) arrays
        The sample of the fit. Features that do not vary have 0.
    held_out : (m, e) and (m, f) arrays
        The sample of the correlations.
    """
    directions = np.linalg.pinv(covariance(embeddings), hermitian=True) @ covariance(
        embeddings, features
    )
    return np.abs(np.diag(correlations(directions, *held_out)))


def agreement(first: np.ndarray, second: np.ndarray, within: np.ndarray) -> float:
    """Return the mean absolute correlation of the components of two bases, matched one to one.

    Parameters
    ----------
    first, second : (e, k) arrays
        Two bases. The matching has the largest sum (Hungarian method).
    within : (e, e) array
        Covariance of the embeddings on which the components are compared.
    """
    spread = np.sqrt(np.einsum("ek,ek->k", second, within @ second))
    matches = np.abs(correlations_of(first, within, within @ second, spread))
    return float(matches[linear_sum_assignment(matches, maximize=True)].mean())


def _signs(components: np.ndarray) -> np.ndarray:
    """Return −1 for components (n, k) that are skewed to the left, and 1 for the others."""
    return np.where((components**3).mean(axis=0) < 0, -1.0, 1.0)


INPUTS_OF_A_COMPONENT = 4
"""Fewest inputs per component: with fewer, a search fits noise."""


@dataclass(frozen=True)
class Identified:
    """Result of a search on the two halves of a sample.

    Attributes
    ----------
    bases : (2, e, K) array
        Directions that were fitted on the first and on the second half. Their arbitrary sign is
        chosen so that components are skewed to the right, as sparse sources above zero are.
    agreement : float
        Split-half agreement of the two: `agreement` on all inputs. It needs no truth.
    agreement_null : (r,) array
        The same for r pairs of Haar rotations of the same whitened components.
    recovery : (f,) array
        Mean recovery of each true feature over both bases, each measured on the half on which it
        was not fitted. Empty without features.
    recovery_null : (r, f) array
        The same for the Haar rotations.
    converged : bool
        Whether both searches converged.
    """

    bases: np.ndarray
    agreement: float
    agreement_null: np.ndarray
    recovery: np.ndarray
    recovery_null: np.ndarray
    converged: bool


def identify(
    embeddings: np.ndarray,
    split: tuple[np.ndarray, np.ndarray],
    components: int,
    methods: Sequence[str],
    generator: np.random.Generator,
    features: np.ndarray | None = None,
    rotations: int = 100,
) -> dict[str, Identified]:
    """Search for a basis on each half of a sample, and score it on the other.

    Parameters
    ----------
    embeddings : (n, e) array
        A sample.
    split : two arrays of int
        Rows of the two halves, as `halves` returns them.
    components : int
        K: the searches are among rotations of the first K principal components.
    methods : sequence of str
        Keys of `SEARCHES`.
    generator : numpy.random.Generator
        Draws the starts of the searches and the rotations of the null.
    features : (n, f) array, optional
        True features of the inputs.
    rotations : int
        r, pairs of Haar rotations of the null; the null is the same for all methods.

    Returns
    -------
    dict of str to Identified
        By method.
    """
    parts = [embeddings[rows] for rows in split]
    whitened = [whitened_directions(part, components) for part in parts]
    # Single precision halves the time of the searches.
    scores = [
        (_centred(part) @ white).astype(np.float32)
        for part, white in zip(parts, whitened, strict=True)
    ]
    starts = [random_rotation(components, generator).astype(np.float32) for _ in parts]
    within = covariance(embeddings)
    if features is None:
        features = np.zeros((len(embeddings), 0))
    other_halves = [moments(embeddings[rows], features[rows]) for rows in reversed(split)]

    def score(bases: Sequence[np.ndarray]) -> tuple[float, np.ndarray]:
        recovered = [
            recovery(correlations_of(basis, *other_half))
            for basis, other_half in zip(bases, other_halves, strict=True)
        ]
        return agreement(bases[0], bases[1], within), np.mean(recovered, axis=0)

    null = [
        score([white @ random_rotation(components, generator) for white in whitened])
        for _ in range(rotations)
    ]
    results = {}
    for method in methods:
        fits = [SEARCHES[method](*pair) for pair in zip(scores, starts, strict=True)]
        bases = [
            white @ rotation * _signs(part @ rotation)
            for white, (rotation, _), part in zip(whitened, fits, scores, strict=True)
        ]
        measured, recovered = score(bases)
        results[method] = Identified(
            bases=np.stack(bases),
            agreement=measured,
            agreement_null=np.array([value for value, _ in null]),
            recovery=recovered,
            recovery_null=np.array([values for _, values in null]).reshape(
                rotations, features.shape[1]
            ),
            converged=all(converged for _, converged in fits),
        )
    return results
