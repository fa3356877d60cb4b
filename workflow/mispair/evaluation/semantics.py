"""Correlations of neurons' activations with known features.

Cosine purity uses weights alone. On generated data every image and caption has known binary
features, so two measures show directly how well a neuron follows a single one of them:

- *semantic purity*, the largest absolute Pearson correlation of the neuron's activation with a
  feature: its square is the share of the neuron's variance which that feature explains. (This is
  the score by which nonlinear ICA compares a recovered source with true ones, Hyvärinen and
  Morioka 2016, NeurIPS 29; here every neuron picks its best feature, and two may pick the same.)
- *selectivity*, that square divided by the sum of the squares over all features: 1 if the neuron
  correlates with one feature only, 1/f if with all f alike. (It is the largest of the shares whose
  entropy is the "disentanglement" of Eastwood and Williams 2018, ICLR, with squared correlations
  as importances.) It ignores variance that no feature explains.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from mispair.core import distributions
from mispair.core.metrics import Row
from mispair.evaluation.purity import neuron_overlap, null_summary
from mispair.towers.projection_measures import Covariance

ORIGINAL = "original"
"""Name of the basis in which neurons are the columns of the projection."""

ROTATED = "rotated"
"""Name of all rotated bases together; neurons are those of the first, ``rotated-0``."""

STILL = 1e-6
"""A neuron counts as constant if its activation varies by less than this share of its size."""


def binary_codes(named: Sequence[Iterable[str]]) -> tuple[list[str], np.ndarray]:
    """Turn lists of features into binary codes.

    Returns
    -------
    features : list of str
        Every feature that occurs, sorted.
    codes : (n, f) bool array
        Which feature is in which list.

    Examples
    --------
    >>> binary_codes([["red", "star"], ["star"], []])
    (['red', 'star'], array([[ True,  True], [False,  True], [False, False]]))
    """
    features = sorted({name for names in named for name in names})
    column = {name: position for position, name in enumerate(features)}
    codes = np.zeros((len(named), len(features)), dtype=bool)
    for row, names in zip(codes, named, strict=True):
        row[[column[name] for name in names]] = True
    return features, codes


class FeatureSample(Covariance):
    """Embeddings and true features of a tower's inputs, added block by block.

    It holds the means and the sums of products of deviations, not the sample itself.

    Parameters
    ----------
    neurons : int
        Number of neurons e.
    features : int
        Number of features f.
    """

    def __init__(self, neurons: int, features: int) -> None:
        super().__init__(neurons + features)
        self.neurons, self.features = neurons, features

    def add_inputs(self, embeddings: np.ndarray, codes: np.ndarray) -> None:
        """Add a block of embeddings (m, e) and codes (m, f)."""
        self.add(np.hstack([embeddings, codes]))

    @property
    def varying(self) -> np.ndarray:
        """Which features are in some but not all of the sample, (f,) bool."""
        return np.diag(self._products)[self.neurons :] > 0

    def correlations(self, rotation: np.ndarray | None = None) -> np.ndarray:
        """Return the Pearson correlation of every neuron with every varying feature, (e, v).

        Parameters
        ----------
        rotation : (e, e) array, optional
            Orthogonal matrix by which the embeddings are multiplied. It changes the neurons and
            nothing else, and needs no second pass over the sample.

        Notes
        -----
        A neuron that does not vary correlates with nothing: 0.
        """
        e = self.neurons
        columns = e + np.flatnonzero(self.varying)
        within, across = self._products[:e, :e], self._products[:e, columns]
        mean = self._mean[:e]
        if rotation is not None:
            within, across = rotation.T @ within @ rotation, rotation.T @ across
            mean = rotation.T @ mean
        squares = np.diag(within)
        moves = squares > STILL**2 * (squares + self.size * mean**2)
        scale = np.sqrt(np.where(moves, squares, np.inf))[:, None]
        coefficients = across / scale / np.sqrt(np.diag(self._products)[columns])
        return np.clip(coefficients, -1, 1)


def selectivity(correlations: np.ndarray) -> np.ndarray:
    """Return each neuron's largest squared correlation over the sum of all, (e,); 0 if all are 0.

    Parameters
    ----------
    correlations : (e, v) array
        Of neurons with features.
    """
    squares = correlations**2
    total = squares.sum(axis=1)
    return squares.max(axis=1) / np.where(total > 0, total, 1)


def rank_correlation(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Return Spearman's correlation and its two-sided p value; NaN if one is constant or n < 3.

    The p value takes neurons as independent draws. Those of one projection are not quite.
    """
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return np.nan, np.nan
    return distributions.rank_correlation(a, b)


def measures(
    sample: FeatureSample,
    projection: np.ndarray,
    features: Sequence[str],
    rotations: Sequence[np.ndarray],
) -> list[Row]:
    """Return semantic measures of one tower's neurons, and their correlation with the overlap.

    Parameters
    ----------
    sample : FeatureSample
        Of embeddings under this projection.
    projection : (d, e) array
        Columns are neurons.
    features : sequence of str
        Names of the sample's features.
    rotations : sequence of (e, e) arrays
        Orthogonal matrices. The same measures in these bases, which do not result from training,
        are the null.

    Returns
    -------
    list of dict
        ``basis``, ``metric``, ``value`` and ``n``. In the basis `ORIGINAL` and in the first
        rotated one, for each ``neuron`` with its ``overlap`` (mean absolute cosine with the
        others): ``best_correlation`` (signed, with its ``feature``) and ``selectivity``, n images
        or captions. For all neurons together: ``mean_semantic_purity`` and ``mean_selectivity``;
        their rank correlations over the n neurons with the overlap, ``semantic_purity_by_overlap``
        and ``selectivity_by_overlap`` with ``p`` (negative if pure weights go with pure meaning);
        and ``features_constant``, the number left out. The basis `ROTATED` has the four means and
        correlations as the `null_summary` of all rotations.

    Raises
    ------
    ValueError
        If no feature varies, or a neuron has no direction.
    """
    names = [name for name, varies in zip(features, sample.varying, strict=True) if varies]
    if not names:
        raise ValueError(
            f"of {len(features)} true features none is in some and not in others of "
            f"{sample.size} inputs: there is nothing to correlate with"
        )
    left_out = len(features) - len(names)
    rows: list[Row] = [
        {"basis": ORIGINAL, "metric": "features_constant", "value": left_out, "n": len(features)}
    ]
    correlations = sample.correlations()
    overlap = neuron_overlap(projection)
    together = _together(correlations, overlap)
    for metric, (value, p) in together.items():
        over = len(overlap) if metric.endswith(BY_OVERLAP) else sample.size
        tested = {"p": p} if metric.endswith(BY_OVERLAP) else {}
        rows.append({"basis": ORIGINAL, "metric": metric, "value": value, "n": over, **tested})
    rows += _of_neurons(ORIGINAL, correlations, names, overlap, sample.size)
    null: list[dict[str, tuple[float, float]]] = []
    for number, rotation in enumerate(rotations):
        turned = sample.correlations(rotation)
        turned_overlap = neuron_overlap(projection @ rotation)
        null.append(_together(turned, turned_overlap))
        if not number:
            name = f"{ROTATED}-{number}"
            rows += _of_neurons(name, turned, names, turned_overlap, sample.size)
    for metric, (value, _) in together.items() if null else ():
        summary = null_summary([each[metric][0] for each in null], value)
        over = len(overlap) if metric.endswith(BY_OVERLAP) else sample.size
        rows.append({"basis": ROTATED, "metric": metric, "n": over, **summary})
    return rows


BY_OVERLAP = "_by_overlap"


def _measures(correlations: np.ndarray) -> dict[str, np.ndarray]:
    """Return both measures of every neuron, (e,) each."""
    return {
        "semantic_purity": np.abs(correlations).max(axis=1),
        "selectivity": selectivity(correlations),
    }


def _together(correlations: np.ndarray, overlap: np.ndarray) -> dict[str, tuple[float, float]]:
    """Return the means of all neurons, and their rank correlations with the overlap and its p."""
    results: dict[str, tuple[float, float]] = {}
    for name, values in _measures(correlations).items():
        results[f"mean_{name}"] = float(values.mean()), np.nan
        results[f"{name}{BY_OVERLAP}"] = rank_correlation(values, overlap)
    return results


def _of_neurons(
    basis: str, correlations: np.ndarray, names: Sequence[str], overlap: np.ndarray, size: int
) -> list[Row]:
    best = np.argsort(-np.abs(correlations), axis=1, kind="stable")[:, 0]
    rows: list[Row] = []
    for neuron, share in enumerate(selectivity(correlations)):
        shared = {"basis": basis, "neuron": neuron, "n": size, "overlap": overlap[neuron]}
        value, feature = correlations[neuron, best[neuron]], names[best[neuron]]
        rows.append({"metric": "best_correlation", "value": value, "feature": feature, **shared})
        rows.append({"metric": "selectivity", "value": share, **shared})
    return rows
