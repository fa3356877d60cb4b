"""Swaps of captions between similar pairs, as in the paper's public code.

The pairs are visited in random order. A pair that still has its own caption exchanges it with one
of the ten pairs whose captions are most similar to its own, among those that have not exchanged
theirs. This goes on until the wanted share of the pairs is swapped. Every caption is used as often
as before, which the scheme ``similar`` does not ensure.

The similarity is the cosine of TF-IDF vectors with the settings of that code: words and pairs of
adjacent words, English stop words left out, at most 5,000 terms, each in at least two captions and
at most 95 % of them. One thing differs: pairs with the same caption do not exchange it, because
that changes nothing.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from mispair.pairs.captions.scripts import TOKEN

CANDIDATES = 10
"""The most similar pairs among which the partner is drawn."""

_AT_ONCE = 256
"""Pairs whose similarities to all others are computed together."""


def mutual_tfidf(captions: Sequence[str]) -> sparse.csr_array:
    """Return the TF-IDF vectors, (n, terms) float32, by which `swap_similar` compares captions.

    Document frequencies count pairs. Rows have length 1, or are zeros for captions without a term.
    If no term is left, there are no columns.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    plain = [" ".join(re.sub(r"[^\w\s]", " ", caption.lower()).split()) for caption in captions]
    vectoriser = TfidfVectorizer(
        max_features=5000, stop_words="english", ngram_range=(1, 2), min_df=2, max_df=0.95,
        token_pattern=TOKEN, dtype=np.float32,
    )  # fmt: skip
    try:
        return sparse.csr_array(vectoriser.fit_transform(plain))
    except ValueError as error:
        if not any(phrase in str(error) for phrase in ("empty vocabulary", "no terms", "max_df")):
            raise
        return sparse.csr_array((len(plain), 0), dtype=np.float32)


@dataclass(frozen=True)
class Swaps:
    """Exchanges of captions between pairs.

    Attributes
    ----------
    source : (n,) int64 array
        For each pair, the pair whose caption it has now. Applied twice it is the identity.
    similarity : (s,) float64 array
        Cosine of the two captions of each exchange, in order.
    """

    source: np.ndarray
    similarity: np.ndarray


def swap_similar(
    vectors: sparse.csr_array,
    rate: float,
    generator: np.random.Generator,
    equal: Callable[[int], np.ndarray],
) -> Swaps:
    """Exchange captions between similar pairs until a share of the pairs is swapped.

    With generators of the same state, the exchanges at a small rate are the first of those at a
    large one. Equal similarities are ordered at random. Fewer pairs are swapped only if no
    remaining pair may exchange with another.

    Parameters
    ----------
    vectors : (n, terms) array
        Rows of length 1 or 0; nothing is negative.
    rate : float
        Share of the pairs to swap, in [0, 1], rounded to an even number of pairs.
    equal : callable
        Given a pair, returns (n,) bool: exchanges with it that would change nothing. Symmetric.
    """
    n = vectors.shape[0]
    goal = round(rate * n / 2)
    order = generator.permutation(n)
    # In the order of the visits, so that a stable sort orders equal similarities at random.
    ordered = vectors[order]
    transposed = sparse.csc_array(ordered.T)
    free = np.ones(n, bool)
    source = np.arange(n, dtype=np.int64)
    similarities: list[float] = []
    start = 0
    while start < n and len(similarities) < goal:
        stop = min(start + _AT_ONCE, n)
        visited = start + np.flatnonzero(free[start:stop])
        cosines = (ordered[visited] @ transposed).toarray() if len(visited) else []
        for position, row in zip(visited.tolist(), cosines, strict=True):
            if len(similarities) == goal:
                break
            if not free[position]:  # an earlier pair of the block exchanged with it
                continue
            pair = int(order[position])
            free[position] = False
            open_to = np.flatnonzero(free & ~equal(pair)[order])
            if not len(open_to):
                continue
            best = _best(row[open_to], CANDIDATES)
            partner = int(open_to[best[generator.integers(len(best))]])
            free[partner] = False
            source[pair], source[order[partner]] = order[partner], pair
            similarities.append(float(row[partner]))
        start = stop
    return Swaps(source, np.array(similarities))


def _best(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the positions of the k largest scores, largest first, equal ones by position."""
    columns = np.arange(len(scores))
    if len(scores) > k:
        columns = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
    return columns[np.argsort(-scores[columns], kind="stable")][:k]
