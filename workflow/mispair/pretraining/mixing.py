"""How much the features that wrong captions link are mixed in an embedding.

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

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mispair.pretraining.varimax import correlations

RIDGE = 1e-4
"""Penalty of linear readouts, as a share of the mean variance of the coordinates."""

Sample = tuple[np.ndarray, np.ndarray]
"""Embeddings (n, e) and true features (n, f) of the same inputs."""


@dataclass(frozen=True)
class Comparison:
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
) -> list[Comparison]:
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
    Comparison(feature=0, linked=(1, 4), others=(2, 3))
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
            compared.append(Comparison(j, linked, others))
    return compared


def mixing(
    directions: np.ndarray,
    chosen_on: Sample,
    scored_on: Sample,
    compared: Sequence[Comparison],
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
    compared : sequence of Comparison
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
