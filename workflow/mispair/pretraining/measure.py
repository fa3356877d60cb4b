"""What is measured of one small tower: mixing scores and recovery in several bases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mispair.core import seeds
from mispair.evaluation.identified_basis import RECOVERED, correlations, halves, identify
from mispair.evaluation.zeroshot import embed
from mispair.pairs.scenes.scene_features import VOCABULARY
from mispair.pretraining.mixing import centred_by_kind, comparisons, cross_fitted, mixing, readouts
from mispair.pretraining.names import IDENTIFIED, LINEAR, NEURONS, PROMPTS

Row = dict[str, Any]
Sample = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Prompts:
    """The words of features: each text, and the column of the feature that it names."""

    texts: list[str]
    features: np.ndarray


def words_of_features(features: Sequence[str]) -> Prompts:
    """Return every word or phrase of the vocabulary with its feature, in the features' order."""
    texts, columns = [], []
    for column, feature in enumerate(features):
        kind, value = feature.split(":")
        texts += VOCABULARY[kind][value]
        columns += [column] * len(VOCABULARY[kind][value])
    return Prompts(texts, np.array(columns))


def embeddings_of(
    text_features: np.ndarray, projection: np.ndarray, features: np.ndarray
) -> np.ndarray:
    """Return the mean embedding of the words of each feature as directions, (e, f).

    Parameters
    ----------
    text_features : (t, d) array
        Of the words, before the projection.
    projection : (d, e) array
        Text projection.
    features : (t,) array of int
        Column of the feature that each word names.
    """
    embedded = embed(text_features, projection)
    means = [embedded[features == column].mean(axis=0) for column in np.unique(features)]
    return np.stack(means, axis=1)


def measure_tower(
    tower_features: np.ndarray,
    projection: np.ndarray,
    codes: np.ndarray,
    names: Sequence[str],
    partners: Mapping[str, str],
    components: int,
    rotations: int,
    seed: int,
    prompt_directions: np.ndarray | None = None,
) -> list[Row]:
    """Return mixing scores and recovery of one tower.

    Parameters
    ----------
    tower_features : (n, d) array
        Of inputs that the tower was not trained on, before the projection.
    projection : (d, e) array
        Columns are neurons.
    codes : (n, f) bool array
        True features of the inputs.
    names : sequence of str
        Names ``kind:value`` of the features.
    partners : mapping of str to str
        The feature that wrong captions name in place of each.
    components, rotations : int
        Principal components of the search for a basis, and rotations of its null.
    seed : int
        Of the halves, starts and rotations.
    prompt_directions : (e, f) array, optional
        Embeddings of the features' words.

    Returns
    -------
    list of dict
        For each ``basis`` ``mixing`` (n features), ``linked_correlation`` and
        ``other_correlation``, whose difference it is, and ``followed_correlation`` (of the same
        features). Over all features that vary, ``recovery`` and ``features_recovered`` of the
        identified basis, of its null (``identified-null``) and of the linear readout.

    Raises
    ------
    ValueError
        If no feature has something to be compared with, or the embedding is too narrow.
    """
    embeddings = embed(tower_features, projection)
    draw = seeds.generator(seed, "measure-mixing")
    split = halves(len(embeddings), draw)
    truth = codes.astype(np.float64)
    samples = [(embeddings[rows], truth[rows]) for rows in split]
    varying = np.all([np.ptp(sample[1], axis=0) > 0 for sample in samples], axis=0)
    compared = comparisons(names, partners, varying.tolist())
    searched = identify(
        embeddings, split, components, ["varimax"], draw, truth[:, varying], rotations
    )["varimax"]
    neurons = np.eye(embeddings.shape[1])
    bases: dict[str, tuple[list[np.ndarray], bool]] = {
        IDENTIFIED: (list(searched.bases), False),
        LINEAR: ([readouts(sample) for sample in samples], True),
        NEURONS: ([neurons, neurons], False),
    }
    if prompt_directions is not None:
        centred = centred_by_kind(prompt_directions, names)
        bases[PROMPTS] = ([centred, centred], True)
    rows: list[Row] = []
    for basis, (directions, matched) in bases.items():
        score = cross_fitted(
            [
                mixing(directions[fit], samples[fit], samples[1 - fit], compared, matched)
                for fit in (0, 1)
            ]
        )
        rows += [
            {"basis": basis, "metric": metric, "value": value, "n": score.features}
            for metric, value in (
                ("mixing", score.score),
                ("linked_correlation", score.linked),
                ("other_correlation", score.others),
                ("followed_correlation", score.recovery),
            )
        ]
    fitted = [readouts((embeddings, truth[:, varying])) for embeddings, truth in samples]
    ceiling = np.mean(
        [
            np.abs(np.diag(correlations(fitted[fit], *_varying(samples[1 - fit], varying))))
            for fit in (0, 1)
        ],
        axis=0,
    )
    matrices = {
        IDENTIFIED: searched.recovery,
        f"{IDENTIFIED}-null": searched.recovery_null.mean(axis=0),
        LINEAR: ceiling,
    }
    for basis, values in matrices.items():
        rows += [
            {"basis": basis, "metric": "recovery", "value": values.mean(), "n": len(values)},
            {"basis": basis, "metric": "features_recovered",
             "value": int((values > RECOVERED).sum()), "n": len(values)},
        ]  # fmt: skip
    return rows


def _varying(sample: Sample, varying: np.ndarray) -> Sample:
    """Return a sample with the features that vary."""
    embeddings, truth = sample
    return embeddings, truth[:, varying]
