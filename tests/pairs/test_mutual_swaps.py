"""Mutual swaps between similar pairs, against a loop over the dense matrix of cosines."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from mispair.pairs.corruption import mutual_swaps
from mispair.pairs.corruption.mutual_swaps import mutual_tfidf, swap_similar
from tests.pairs.test_tfidf import captions

RATES = (0.1, 0.3, 0.5, 0.8, 1.0)


def swapped(texts: list[str], rate: float, seed: int = 0):
    own = np.array(texts)
    return swap_similar(
        mutual_tfidf(texts), rate, np.random.default_rng(seed), lambda pair: own == own[pair]
    )


def literal(texts: list[str], rate: float, seed: int) -> list[int]:
    """Visit pairs in random order; draw one of the ten best that are free, and exchange."""
    vectors = TfidfVectorizer(
        max_features=5000, stop_words="english", ngram_range=(1, 2), min_df=2, max_df=0.95
    ).fit_transform(texts)
    cosines = cosine_similarity(vectors.astype(np.float32))
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(texts)).tolist()
    rank = {pair: place for place, pair in enumerate(order)}
    source, used = list(range(len(texts))), set()
    for pair in order:
        if len(used) >= 2 * round(rate * len(texts) / 2):
            break
        if pair in used:
            continue
        others = [i for i in range(len(texts)) if i not in used and texts[i] != texts[pair]]
        others.sort(key=lambda i: (-round(float(cosines[pair, i]), 6), rank[i]))
        if others:
            partner = others[:10][int(draw.integers(min(10, len(others))))]
            used |= {pair, partner}
            source[pair], source[partner] = partner, pair
    return source


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("seed", [0, 1])
def test_partners_are_as_similar_as_those_of_the_literal_procedure(rate, seed):
    # Words that occur in one caption alone are no terms, so these captions have many ties.
    texts = [f"{text} w{i % 23} v{i % 31}" for i, text in enumerate(captions(300, 40))]
    done = swapped(texts, rate, seed)
    expected = literal(texts, rate, seed)
    # A tie that rounding breaks the other way sends the two procedures on different ways.
    same = np.mean(np.array(expected) == done.source)
    assert same == 1.0 or rate > 0.1
    vectors = mutual_tfidf(texts)
    cosines = (vectors @ vectors.T).toarray()
    moved = [i for i, other in enumerate(expected) if other != i]
    theirs = np.mean([cosines[i, expected[i]] for i in moved])
    assert done.similarity.mean() == pytest.approx(theirs, abs=0.02)


@pytest.mark.parametrize("rate", RATES)
def test_swaps_are_mutual_and_reach_the_rate(rate):
    texts = captions(401, 60)
    source = swapped(texts, rate).source
    assert (source[source] == np.arange(401)).all()
    assert sorted(texts[i] for i in source) == sorted(texts)
    moved = source != np.arange(401)
    assert abs(moved.sum() - rate * 401) <= 1
    assert all(texts[i] != texts[source[i]] for i in np.flatnonzero(moved))


def test_blocks_change_nothing(monkeypatch):
    texts = captions(300, 60)
    whole = swapped(texts, 0.8).source
    monkeypatch.setattr(mutual_swaps, "_AT_ONCE", 7)
    assert (swapped(texts, 0.8).source == whole).all()


def test_the_partner_is_one_of_the_ten_most_similar_at_the_first_exchange():
    texts = [f"group{i % 30} word{i % 30} extra{i}" for i in range(330)]
    for seed in range(20):
        done = swapped(texts, 2 / 330, seed)
        first, second = np.flatnonzero(done.source != np.arange(330))
        assert (second - first) % 30 == 0  # each group has eleven captions that share two terms


def test_terms_are_words_and_pairs_of_words_in_two_captions_and_not_in_nearly_all():
    texts = ["red dog here", "red dog there!", "a red cat", "the blue cat", "red-dog: lonely"]
    terms = mutual_tfidf([*texts, *(f"common {n % 4}x" for n in range(200))]).shape[1]
    # red, dog, red dog, cat, and 0x to 3x; common is in more than 95 %; others are in one caption.
    assert terms == 4 + 4 + 4  # with "common 0x" to "common 3x"
    assert mutual_tfidf(["red", "dog"]).shape == (2, 0)
    assert mutual_tfidf(["the", "of"]).shape == (2, 0)
    assert len(swapped(["red", "dog"], 1).similarity) == 1
    assert len(swapped(["red", "red"], 1).similarity) == 0
