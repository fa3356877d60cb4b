"""Names of neurons: the word of captions that a neuron's activation predicts best.

The measure is the area under the ROC curve (AUC): the probability that a random input whose caption
holds the word activates the neuron more than a random one whose caption does not (Mann and Whitney
1947). It needs no list of concepts: the words are those of the corpus. A name is chosen on one
sample and its AUC measured on another, because the best of many words looks good by chance.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy import sparse, stats

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
