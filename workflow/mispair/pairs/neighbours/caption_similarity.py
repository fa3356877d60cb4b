"""How alike two captions are by their words: the cosine of their TF-IDF vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MEASURE = "tfidf"

MOST_PAIRS = 100_000
"""A mean similarity is taken over at most so many changed pairs, drawn at random."""

MOST_CAPTIONS = 200_000
"""Document frequencies are counted in at most so many distinct captions, drawn at random."""


def tfidf_similarities(
    original: Sequence[str], given: Sequence[str], corpus: Sequence[str]
) -> np.ndarray:
    """Return the cosine similarity of each text to its partner.

    Words are scikit-learn's: two or more letters or digits, lower case, English stop words left
    out. A word weighs its count times ``ln((1 + c) / (1 + f)) + 1`` when it is in f of the c
    captions of the corpus; words that none of them has count as well.

    Parameters
    ----------
    original, given : sequence of str
        Texts of n pairs before and after.
    corpus : sequence of str
        Distinct captions in which document frequencies are counted.

    Returns
    -------
    (n,) float64 array
        Similarities in [0, 1]; 0 where a text has no words.
    """
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
    from sklearn.preprocessing import normalize

    if not original:
        return np.zeros(0)
    counter = CountVectorizer(stop_words="english", dtype=np.float64)
    try:
        counts = counter.fit_transform([*corpus, *original, *given])
    except ValueError:  # not a single word in any text
        return np.zeros(len(original))
    weights = TfidfTransformer(norm=None).fit(counts[: len(corpus)])
    vectors = normalize(weights.transform(counts[len(corpus) :]))
    left, right = vectors[: len(original)], vectors[len(original) :]
    return np.clip(np.asarray(left.multiply(right).sum(axis=1)).ravel(), 0.0, 1.0)


def sample(items: np.ndarray, most: int, generator: np.random.Generator) -> np.ndarray:
    """Return at most so many of the items, drawn without replacement, in their own order."""
    if len(items) <= most:
        return items
    return np.asarray(items[np.sort(generator.permutation(len(items))[:most])])
