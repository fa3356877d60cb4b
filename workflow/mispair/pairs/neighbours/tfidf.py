"""Similarity of texts by words (cosine of TF-IDF vectors), of given pairs and of all pairs."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy import sparse

from mispair.core.resume import Keeper
from mispair.pairs.captions.scripts import TOKEN
from mispair.pairs.neighbours.similar_captions import Nearest, Neighbours

MEASURE = "tfidf"
"""Name of the similarity."""

_SIDE = 16384
"""Texts of a block: the running sums of a row of its product stay in the cache."""

_BYTES_PER_SCORE = 48
_ENOUGH = 2**26
"""Size of a portion in bytes; larger ones are slower."""


def tfidf(texts: Sequence[str]) -> sparse.csr_array:
    """Return scikit-learn's TF-IDF vectors of texts, of length 1, without English stop words.

    A text with no other words, or none of two letters, has a row of zeros. In scripts without
    blanks, each letter is a word.

    Returns
    -------
    (n, words) float64 array
        With sorted indices.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    try:
        vectors = TfidfVectorizer(stop_words="english", token_pattern=TOKEN).fit_transform(texts)
    except ValueError as error:
        if "empty vocabulary" not in str(error):
            raise
        return sparse.csr_array((len(texts), 0))
    vectors = sparse.csr_array(vectors)
    vectors.sort_indices()
    return vectors


def tfidf_similarities(
    original: Sequence[str], given: Sequence[str], corpus: Sequence[str]
) -> np.ndarray:
    """Return the cosine similarity in [0, 1] of each text to its partner, (n,) float64.

    Words are scikit-learn's: two or more letters or digits, lower case, English stop words left
    out; or one letter of a script without blanks. A word weighs its count times
    ``ln((1 + c) / (1 + f)) + 1`` when it is in f of the c distinct captions of the corpus; words
    that none of them has count as well. A text without words has similarity 0.
    """
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
    from sklearn.preprocessing import normalize

    if not original:
        return np.zeros(0)
    counter = CountVectorizer(stop_words="english", token_pattern=TOKEN, dtype=np.float64)
    try:
        counts = counter.fit_transform([*corpus, *original, *given])
    except ValueError:  # not a single word in any text
        return np.zeros(len(original))
    weights = TfidfTransformer(norm=None).fit(counts[: len(corpus)])
    vectors = normalize(weights.transform(counts[len(corpus) :]))
    left, right = vectors[: len(original)], vectors[len(original) :]
    return np.clip(np.asarray(left.multiply(right).sum(axis=1)).ravel(), 0.0, 1.0)


def products(vectors: sparse.csr_array) -> float:
    """Return how many products the exact search needs for each text, on average."""
    texts_with = np.bincount(vectors.indices).astype(float)
    return float((texts_with**2).sum() / 2 / max(1, vectors.shape[0]))


def nearest_texts(
    vectors: sparse.csr_array,
    k: int,
    memory: int = 2**28,
    progress: Callable[[float], None] = lambda share: None,
    keeper: Keeper[np.ndarray] | None = None,
) -> Iterator[Neighbours]:
    """Yield for each text the k others with the largest cosine; equal ones by smaller index.

    Texts that share no word are not similar: a text has fewer than k neighbours, or none, where
    fewer share one with it. The scores of one block of texts with another serve both. They are
    added up in float64 and compared in float32, so that equal scores stay equal for any order of
    addition.

    The cost is one product for each word that a pair of texts shares. It grows with the square of
    the number of texts, mostly through words that are in a few per cent of them.

    Parameters
    ----------
    vectors : (n, words) float64 array
        Rows of length 1 or zero; nothing is negative.
    memory : int
        Bound of the working blocks in bytes, next to 8 k + 4 bytes for each row.
    progress, keeper
        As for `similarity.nearest_rows`; the yielded arrays are the same too.
    """
    n = vectors.shape[0]
    best = Nearest(n, k)
    done, number = best.resume(keeper), 0
    most = min(memory, _ENOUGH) // _BYTES_PER_SCORE
    for start in range(0, n, _SIDE):
        block = vectors[start : start + _SIDE].T.tocsr()
        # Each text meets the others in ascending order; see `similarity.nearest_rows`.
        for first, last in _portions(vectors, block, start, most):
            number += 1
            if number > done:
                _offer(best, vectors[first:last] @ block, first, start)
                best.keep(keeper, number)
        if number > done:
            progress(1 - (max(n - start - _SIDE, 0) / n) ** 2)
    yield from best.portions()


def _portions(
    vectors: sparse.csr_array, block: sparse.csr_array, start: int, scores: int
) -> Iterator[tuple[int, int]]:
    """Cut the texts from `start` on into portions whose products have at most `scores` entries.

    A portion has at least one text, and is within one block.
    """
    texts_with = np.diff(block.indptr)
    for first in range(start, vectors.shape[0], _SIDE):
        ends = vectors.indptr[first : first + _SIDE + 1]
        score_counts = np.cumsum(texts_with[vectors.indices[ends[0] : ends[-1]]], dtype=np.int64)
        score_counts = np.append(0, score_counts)[ends - ends[0]]
        done = 0
        while done < len(ends) - 1:
            fits = int(np.searchsorted(score_counts, score_counts[done] + scores, "right")) - 1
            following = max(fits, done + 1)
            yield first + done, first + following
            done = following


def _offer(best: Nearest, product: sparse.csr_array, start: int, first_column: int) -> None:
    """Offer the products of texts from `start` and from `first_column` to both.

    Within one block, both directions are in the product.
    """
    scores, column, ends = product.data, product.indices, product.indptr
    within = start < first_column + _SIDE
    floor = best.floor[start : start + product.shape[0]]
    if np.isneginf(floor).mean() > 0.5:  # the rows' first offer
        floor = np.maximum(floor, _reached(scores, ends, best.capacity))
    hit = np.flatnonzero(scores > np.repeat(floor, np.diff(ends)))
    row = start + np.searchsorted(ends, hit, "right") - 1
    columns = first_column + column[hit].astype(np.int64)
    if within:
        hit, row, columns = (part[row != columns] for part in (hit, row, columns))
    best.offer(row, columns, scores[hit])
    if not within:
        hit = np.flatnonzero(scores > best.floor[first_column : first_column + _SIDE][column])
        row = start + np.searchsorted(ends, hit, "right") - 1
        best.offer(first_column + column[hit].astype(np.int64), row, scores[hit])


def _reached(scores: np.ndarray, ends: np.ndarray, k: int) -> np.ndarray:
    """Return a lower bound of the k best scores of each row, without the row itself.

    The scores are cut into groups: the k + 1 largest of their maxima are k + 1 scores.
    """
    groups = 4 * (k + 1)
    length = np.diff(ends).astype(np.int64)
    reached = np.full(len(length), -np.inf, np.float32)
    if not (length >= groups).any():
        return reached
    cuts = ends[:-1, None] + length[:, None] * np.arange(groups) // groups
    maxima = np.maximum.reduceat(scores, np.minimum(cuts, len(scores) - 1).ravel())
    least = np.partition(maxima.reshape(-1, groups), -(k + 1), axis=1)[:, -(k + 1)]
    least = np.nextafter(least.astype(np.float32), np.float32(-np.inf))
    return np.where(length >= groups, least, reached)
