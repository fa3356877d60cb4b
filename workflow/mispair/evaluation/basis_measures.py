"""All measures of the bases of one tower: its own, random ones, and those that a search finds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse, stats

from mispair.core.metrics import Row
from mispair.evaluation.identified_basis import (
    RECOVERED,
    SEARCHES,
    Identified,
    correlations_of,
    halves,
    identify,
    linear_ceiling,
    moments,
    recovery,
    usable_components,
)
from mispair.evaluation.purity import null_summary, random_rotation

# The monosemanticity score: how alike the inputs are that activate a neuron.
#
# For a neuron with activations a_i, scaled to [0, 1], and unit embeddings e_i of the inputs in
# another encoder, the score is the mean cosine of all pairs of different inputs, each weighted by
# the product of its two activations (Pach et al. 2025, "Sparse autoencoders learn monosemantic
# features in vision-language models", NeurIPS). The sum over pairs has a closed form,
#
#     (|Σ a_i e_i|² - Σ a_i²) / ((Σ a_i)² - Σ a_i²),
#
# so n inputs need n products instead of n². A scaled neuron of a dense basis is active for all
# inputs, and its score is near the mean cosine of all pairs. Scores are compared with two nulls:
# rotated bases, and embeddings that are shuffled among the inputs.


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


# Names of neurons: the word of captions that a neuron's activation predicts best.
#
# The measure is the area under the ROC curve (AUC): the probability that a random input whose
# caption holds the word activates the neuron more than a random one whose caption does not (Mann
# and Whitney 1947). It needs no list of concepts: the words are those of the corpus. A name is
# chosen on one sample and its AUC measured on another, because the best of many words looks good
# by chance.

LEAST_SHARE, MOST_SHARE = 0.005, 0.9
"""Least and largest share of the captions that contain a word of the vocabulary."""


def words_of(caption: str) -> set[str]:
    """Return the distinct words of a caption in lower case, digits and letters of any script."""
    return set(re.findall(r"\w+", caption.lower()))


def vocabulary(captions: Sequence[str], most: int) -> tuple[list[str], sparse.csr_array]:
    """Return the most frequent words that some captions have and others do not.

    Parameters
    ----------
    captions : sequence of str
        n captions.
    most : int
        Largest number of words.

    Returns
    -------
    spoken : list of str
        v words, the most frequent first, equally frequent ones in alphabetical order.
    presence : (n, v) sparse float32 array
        One where a caption has a word.
    """
    texts = [words_of(caption) for caption in captions]
    counts = Counter(word for spoken in texts for word in spoken)
    least, largest = LEAST_SHARE * len(texts), MOST_SHARE * len(texts)
    kept = [word for word, count in counts.items() if max(least, 1) <= count <= largest]
    names = sorted(kept, key=lambda word: (-counts[word], word))[:most]
    column = {word: position for position, word in enumerate(names)}
    pairs = [
        (row, column[word]) for row, spoken in enumerate(texts) for word in spoken if word in column
    ]
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    ones = np.ones(len(pairs), dtype=np.float32)
    return names, sparse.csr_array((ones, (rows, columns)), shape=(len(texts), len(names)))


def areas(activations: np.ndarray, presence: sparse.csr_array) -> np.ndarray:
    """Return the AUC of each neuron for each word, (k, v); 0.5 where all or no caption has it.

    Parameters
    ----------
    activations : (n, k) array
        Equal activations share their ranks.
    presence : (n, v) sparse array
        One where the caption of an input has a word.
    """
    n = len(activations)
    ranks = stats.rankdata(activations, axis=0)
    with_word = np.asarray(presence.sum(axis=0), dtype=np.float64)
    sums = np.asarray(presence.T @ ranks).T
    pairs = with_word * (n - with_word)
    above = sums - with_word * (with_word + 1) / 2
    return np.divide(above, pairs, out=np.full(above.shape, 0.5), where=pairs > 0)


def names(
    activations: np.ndarray, presence: sparse.csr_array, split: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Name each neuron on one half of the inputs, and measure the names on the other.

    Parameters
    ----------
    activations : (n, k) array
        The sign of a neuron is arbitrary, so its name may be the absence of a word.
    presence : (n, v) sparse array
        Words of the captions of the same inputs, at least one.
    split : two arrays of int
        Rows on which names are chosen, and on which they are measured.

    Returns
    -------
    word : (k,) int array
        Column of the word whose AUC is farthest from 0.5 on the first half.
    sign : (k,) int array
        1 if the word goes with high activations, −1 if with low ones.
    area : (k,) array
        The AUC on the second half, of the activation times the sign.
    """
    chosen, measured = (areas(activations[rows], presence[rows]) for rows in split)
    word = np.abs(chosen - 0.5).argmax(axis=1)
    every = np.arange(len(word))
    sign = np.where(chosen[every, word] >= 0.5, 1, -1)
    return word, sign, 0.5 + sign * (measured[every, word] - 0.5)


ORIGINAL, ROTATED, WHITENED, CEILING = "original", "rotated", "whitened", "linear ceiling"
"""The neurons themselves; random rotations of them; random rotations of the whitened principal
components; and the best direction for each feature, found with the features."""

SCORED = 3
"""Rotated bases that the monosemanticity score is measured in, and shuffles of its embeddings."""

NAMED = 4_000
"""Most inputs on which names are chosen and measured."""

KNOWN = "known features"
"""Encoder of the monosemanticity score: the true features of the inputs."""


@dataclass(frozen=True)
class Inputs:
    """Inputs of one tower.

    Attributes
    ----------
    embeddings : (n, e) array
        Coordinates are the activations of the neurons.
    features : (n, d) array
        Pre-projection features, which are the same in every arm.
    captions : sequence of str
        n captions: those of the inputs, or the inputs themselves.
    codes : (n, f) bool array or None
        True features of the inputs, if they are known.
    names : sequence of str
        Names of the true features.
    """

    embeddings: np.ndarray
    features: np.ndarray
    captions: Sequence[str]
    codes: np.ndarray | None
    names: Sequence[str]


def measures(
    inputs: Inputs,
    components: int,
    rotations: int,
    words: int,
    generator: np.random.Generator,
) -> list[Row]:
    """Return recovery, split-half agreement, monosemanticity and names in every basis as rows.

    Parameters
    ----------
    inputs : Inputs
        A sample.
    components : int
        K: principal components whose rotations are searched; fewer if the sample does not allow
        as many (`usable_components`).
    rotations : int
        Haar rotations of the nulls.
    words : int
        The most frequent words of captions that are names; 0 for no names.
    generator : numpy.random.Generator
        Draws halves, rotations and starts.

    Returns
    -------
    list of dict
        ``basis``, ``metric``, ``value`` and ``n``. For `ORIGINAL` and each search:
        ``mean_recovery`` and ``features_recovered`` (above `RECOVERED`), and for each ``feature``
        its ``recovery``. `ROTATED` and `WHITENED` are their nulls (`null_summary`), `CEILING` is
        their limit. For each search ``split_half_agreement``, with `WHITENED` as the null.
        For every basis ``mean_monosemanticity`` with ``reference``, the encoder that judges, and
        ``mean_name_auc``; `ORIGINAL` has both also with ``_shuffled``. For each
        ``neuron`` of `ORIGINAL` and the searches ``name_auc`` with its name as ``feature``.
        ``components`` is the K that was used; below 2 there is no search.
    """
    embeddings = inputs.embeddings
    split = halves(len(embeddings), generator)
    names: list[str] = []
    codes = None
    if inputs.codes is not None:
        varying = inputs.codes.any(axis=0) & ~np.asarray(inputs.codes.all(axis=0))
        names = [name for name, varies in zip(inputs.names, varying, strict=True) if varies]
        codes = inputs.codes[:, varying].astype(np.float64)
    components = min(components, usable_components(embeddings, split))
    methods = [*SEARCHES] if components > 1 else []
    searched = {}
    if methods:
        searched = identify(embeddings, split, components, methods, generator, codes, rotations)
    turns = [random_rotation(embeddings.shape[1], generator) for _ in range(max(rotations, SCORED))]
    size = len(embeddings)
    rows = [{"basis": WHITENED, "metric": "components", "value": components, "n": size}]
    rows += _agreement(searched, size)
    if codes is not None and names:
        rows += _recovery(embeddings, codes, names, split, searched, turns[:rotations])
    bases = {ORIGINAL: np.eye(embeddings.shape[1])}
    bases |= {method: result.bases[0] for method, result in searched.items()}
    rows += _scores(inputs, bases, turns[:SCORED], generator)
    if words:
        rows += _names(inputs, {**bases, ROTATED: turns[0]}, words, split, generator)
    return rows


def _agreement(searched: Mapping[str, Identified], size: int) -> list[Row]:
    rows: list[Row] = []
    for method, result in searched.items():
        metric = {"metric": "split_half_agreement", "n": size}
        rows.append({"basis": method, "value": result.agreement, **metric})
        if len(result.agreement_null):
            null = null_summary(result.agreement_null.tolist(), result.agreement)
            rows.append({"basis": WHITENED, "reference": method, **metric, **null})
        rows.append(
            {"basis": method, "metric": "converged", "value": float(result.converged), "n": 2}
        )
    return rows


def _recovery(
    embeddings: np.ndarray,
    codes: np.ndarray,
    presence: Sequence[str],
    split: tuple[np.ndarray, np.ndarray],
    searched: Mapping[str, Identified],
    turns: Sequence[np.ndarray],
) -> list[Row]:
    samples = [moments(embeddings[rows], codes[rows]) for rows in split]

    def in_basis(directions: np.ndarray) -> np.ndarray:
        both = [recovery(correlations_of(directions, *sample)) for sample in samples]
        return np.asarray(np.mean(both, axis=0))

    first, second = ((embeddings[rows], codes[rows]) for rows in split)
    ceilings = [linear_ceiling(*first, held_out=second), linear_ceiling(*second, held_out=first)]
    recovery_of = {
        ORIGINAL: in_basis(np.eye(embeddings.shape[1])),
        **{method: result.recovery for method, result in searched.items()},
        CEILING: np.mean(ceilings, axis=0),
    }
    nulls = {ROTATED: (ORIGINAL, [in_basis(turn) for turn in turns])}
    for method, result in [*searched.items()][:1]:  # the null is the same for all searches
        nulls[WHITENED] = method, [*result.recovery_null]
    rows: list[Row] = []
    for basis, values in recovery_of.items():
        rows += [
            {"basis": basis, "metric": metric, "value": value, "n": len(presence)}
            for metric, value in _together(values).items()
        ]
        rows += [
            {"basis": basis, "metric": "recovery", "feature": name, "value": value,
             "n": len(embeddings)}
            for name, value in zip(presence, values, strict=True)
        ]  # fmt: skip
    for basis, (reference, draws) in nulls.items():
        together = [_together(values) for values in draws]
        for metric, number in _together(recovery_of[reference]).items() if together else ():
            null = null_summary([values[metric] for values in together], number)
            keys = {"basis": basis, "metric": metric, "n": len(presence), "reference": reference}
            rows.append({**keys, **null})
    return rows


def _together(values: np.ndarray) -> dict[str, float]:
    return {
        "mean_recovery": float(values.mean()),
        "features_recovered": float((values > RECOVERED).sum()),
    }


def _scores(
    inputs: Inputs,
    bases: Mapping[str, np.ndarray],
    turns: Sequence[np.ndarray],
    generator: np.random.Generator,
) -> list[Row]:
    # Means are subtracted to keep the digits of activations that hardly vary.
    centred = (inputs.embeddings - inputs.embeddings.mean(axis=0)).astype(np.float32)
    encoders = {"features": unit_rows(inputs.features.astype(np.float32))}
    if inputs.codes is not None:
        encoders[KNOWN] = unit_rows(inputs.codes.astype(np.float32))
    orders = [generator.permutation(len(centred)) for _ in range(SCORED)]

    def mean(directions: np.ndarray, encoder: np.ndarray) -> float:
        scores = monosemanticity(scaled(centred @ directions), encoder)
        scores = scores[np.isfinite(scores)]
        return float(scores.mean()) if len(scores) else np.nan

    rows: list[Row] = []
    metric = "mean_monosemanticity"
    for reference, encoder in encoders.items():
        shared = {"reference": reference, "n": len(centred)}
        total = 0.0
        for basis, directions in bases.items():
            value = mean(directions.astype(np.float32), encoder)
            total = value if basis == ORIGINAL else total
            rows.append({"basis": basis, "metric": metric, "value": value, **shared})
        null = null_summary([mean(turn.astype(np.float32), encoder) for turn in turns], total)
        rows.append({"basis": ROTATED, "metric": metric, **shared, **null})
        eye = np.eye(centred.shape[1], dtype=np.float32)
        null = null_summary([mean(eye, encoder[order]) for order in orders], total)
        rows.append({"basis": ORIGINAL, "metric": f"{metric}_shuffled", **shared, **null})
    return rows


def _names(
    inputs: Inputs,
    bases: Mapping[str, np.ndarray],
    words: int,
    split: tuple[np.ndarray, np.ndarray],
    generator: np.random.Generator,
) -> list[Row]:
    # Ranks take most of the time, and fewer inputs measure an AUC well.
    split = split[0][: NAMED // 2], split[1][: NAMED // 2]
    chosen = np.concatenate(split)
    split = np.arange(len(split[0])), np.arange(len(split[0]), len(chosen))
    vocabulary_words, presence = vocabulary([inputs.captions[row] for row in chosen], words)
    if not vocabulary_words:
        return []
    rows: list[Row] = []
    for basis, directions in bases.items():
        activations = inputs.embeddings[chosen] @ directions
        word, sign, area = names(activations, presence, split)
        shared = {"basis": basis, "n": len(split[1])}
        rows.append({"metric": "mean_name_auc", "value": area.mean(), **shared})
        if basis == ORIGINAL:
            shuffled = presence[generator.permutation(len(activations))]
            value = names(activations, shuffled, split)[2].mean()
            rows.append({"metric": "mean_name_auc_shuffled", "value": value, **shared})
        if basis != ROTATED:
            texts = [
                vocabulary_words[column] if side > 0 else f"not {vocabulary_words[column]}"
                for column, side in zip(word, sign, strict=True)
            ]
            rows += [
                {"metric": "name_auc", "neuron": neuron, "feature": text, "value": value, **shared}
                for neuron, (text, value) in enumerate(zip(texts, area, strict=True))
            ]
    return rows
