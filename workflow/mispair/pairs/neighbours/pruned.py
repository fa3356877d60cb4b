"""The texts most similar to each by words, without the products of all that share a word.

Seismic keeps, for each word, texts that have it in blocks of similar ones with a summary. It looks
up the words of a text that weigh most, and skips blocks whose summary shows that their texts are
less similar than those found so far [1]_.

More words are looked up, fewer blocks are skipped, and lists become longer until the recall
suffices on random texts, whose nearest are also searched exactly. So the effort follows from the
data and not from a setting.

References
----------
.. [1] Bruch, Nardini, Rulli and Venturini, Efficient Inverted Indexes for Approximate Retrieval
   over Learned Sparse Representations, SIGIR 2024.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse

from mispair.core import seeds
from mispair.core.files import UserError
from mispair.core.resume import Keeper
from mispair.core.words import percent
from mispair.pairs.neighbours.similar_captions import (
    QUERIES,
    RECALL,
    Found,
    Nearest,
    measured_recall,
)

TEXTS = (4_000, 40_000, 2**32)
"""Texts that the list of a word has at most on average: those in which it weighs most."""

EFFORTS = ((4, 1.0), (6, 1.0), (8, 1.0), (12, 0.9), (16, 0.8), (32, 0.6), (64, 0.3))
"""Words of a text that are looked up, and share of the least similarity found that a block's
summary must reach. Each is tried if the one before does not suffice, then again in longer lists.
"""

_SPARE = 6
"""Others that are asked for beyond those wanted: Seismic's scores are in half precision."""

_BLOCK, _ASKED = 8192, 10


def nearest_by_pruning(
    vectors: sparse.csr_array,
    k: int,
    progress: Callable[[float], None] = lambda share: None,
    keeper: Keeper[np.ndarray] | None = None,
) -> Found:
    """Find for each text nearly all of the k others with the largest cosine.

    Parameters
    ----------
    vectors, progress, keeper
        As for `tfidf.nearest_texts`.

    Raises
    ------
    UserError
        If the greatest effort does not suffice for `RECALL`.
    """
    n = vectors.shape[0]
    draw = seeds.generator("find_similar_captions", "words", n)
    queries = np.sort(draw.permutation(np.flatnonzero(np.diff(vectors.indptr)))[:QUERIES])
    largest = _largest(vectors, queries, k)
    if not np.isfinite(largest).any():
        return Found(Nearest(n, k).portions(), 1.0, len(queries), 0)
    for most, effort in product(TEXTS, EFFORTS):
        if effort == EFFORTS[0]:
            index = _index(vectors, min(most, n))
        asked = Nearest(len(queries), k)
        _search(index, vectors, queries, effort, asked, np.arange(len(queries)))
        recall, at_least = measured_recall(asked.best(slice(None))[1], largest)
        if at_least >= RECALL:
            break
    else:
        raise UserError(
            f"find_similar_captions: {effort[0]} words of each caption find {percent(recall, 1)} "
            f"of the nearest captions, and {percent(RECALL)} are wanted. "
            "Set find_similar_captions.search to exact."
        )
    best = Nearest(n, k)
    done = best.resume(keeper)
    for number, start in enumerate(range(0, n, _BLOCK), 1):
        if number > done:
            rows = np.arange(start, min(start + _BLOCK, n))
            _search(index, vectors, rows, effort, best, rows)
            best.keep(keeper, number)
            progress((rows[-1] + 1) / n)
    return Found(best.portions(), recall, len(queries), effort[0])


def _index(vectors: sparse.csr_array, texts_of_word: int) -> Any:
    import seismic

    texts = seismic.SeismicDatasetLV()
    columns, ends = vectors.indices.astype(np.int64), vectors.indptr.astype(np.int64)
    names = [str(number) for number in range(vectors.shape[0])]
    texts.add_documents_by_id(names, columns, vectors.data.astype(np.float32), ends)
    with _silence():
        return seismic.SeismicIndexLV.build_from_dataset(
            texts, n_postings=texts_of_word, num_threads=1
        )


@contextmanager
def _silence() -> Iterator[None]:
    """Hide what is printed outside Python: Seismic tells of its parameters and times."""
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _search(
    index: Any, vectors: sparse.csr_array, texts: np.ndarray, effort: tuple[int, float],
    best: Nearest, rows: np.ndarray,
) -> None:  # fmt: skip
    """Offer the best others of some texts to their rows, by their exact cosines."""
    import seismic

    kind = seismic.get_seismic_string()
    words, heap_factor = effort
    asked = vectors[texts]
    columns, ends = asked.indices.astype(kind), asked.indptr[1:-1]
    answers = index.batch_search(
        np.arange(len(texts)).astype(kind),
        np.split(columns, ends),
        np.split(asked.data.astype(np.float32), ends),
        k=best.capacity + _SPARE,
        query_cut=words,
        heap_factor=heap_factor,
        num_threads=1,
    )
    found = [(int(row), int(other)) for answer in answers for row, _, other in answer]
    row, other = np.array(found, np.int64).reshape(-1, 2).T
    row, other = (part[other != texts[row]] for part in (row, other))
    cosines = asked[row].multiply(vectors[other]).sum(axis=1)
    best.offer(rows[row], other, cosines)


def _largest(vectors: sparse.csr_array, queries: np.ndarray, k: int) -> np.ndarray:
    """Return the k largest cosines of some texts with others, by all products, (queries, k)."""
    largest = np.full((len(queries), k), -np.inf, np.float32)
    transposed = vectors.T.tocsr()
    for start in range(0, len(queries), _ASKED):
        asked = queries[start : start + _ASKED]
        product = (vectors[asked] @ transposed).tocsr()
        for row, own in enumerate(asked):
            part = slice(product.indptr[row], product.indptr[row + 1])
            scores = product.data[part][product.indices[part] != own]
            if len(scores) > k:
                scores = np.partition(scores, -k)[-k:]
            largest[start + row, : len(scores)] = np.sort(scores)[::-1]
    return largest
