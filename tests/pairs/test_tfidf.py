"""The most similar others of texts, against scikit-learn's dense cosines sorted row by row."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from mispair.pairs.corruption.mutual_swaps import mutual_tfidf
from mispair.pairs.neighbours import tfidf as module
from mispair.pairs.neighbours.tfidf import nearest_texts, tfidf, tfidf_similarities
from tests.pairs.test_similarity import without_nobody

Lists = tuple[list[list[int]], list[list[float]]]


def naive(texts: list[str], k: int) -> Lists:
    """Take the dense matrix of the texts' cosines and sort its rows, ties by index."""
    vectors = TfidfVectorizer(stop_words="english").fit_transform(texts)
    cosines = cosine_similarity(vectors, dense_output=True).astype(np.float32)
    others, scores = [], []
    for i in range(len(texts)):
        sharing = [j for j in np.flatnonzero(cosines[i]).tolist() if j != i]
        best = sorted(sharing, key=lambda j, i=i: (-cosines[i, j], j))[:k]
        others.append(best)
        scores.append(cosines[i, best].tolist())
    return others, scores


def found(texts: list[str], k: int, **how) -> Lists:
    return without_nobody(nearest_texts(tfidf(texts), k, **how))


def captions(n: int, words: int, seed: int = 0) -> list[str]:
    """Return texts of 0 to 8 words, of which the first are common and the last rare."""
    draw = np.random.default_rng(seed)
    share = 1 / (np.arange(words) + 3)
    lengths = draw.integers(0, 9, n)
    drawn = draw.choice(words, lengths.sum(), p=share / share.sum())
    names = [" ".join(f"word{w}" for w in part) for part in np.split(drawn, lengths.cumsum()[:-1])]
    return ["the " + name for name in names]


@pytest.mark.parametrize(("n", "words"), [(2, 3), (11, 5), (300, 20), (900, 4000)])
@pytest.mark.parametrize("k", [1, 10])
def test_neighbours_are_those_of_the_dense_matrix(n, words, k):
    texts = captions(n, words, n)
    others, scores = found(texts, k)
    expected, values = naive(texts, k)
    assert others == expected
    np.testing.assert_allclose(np.concatenate(scores), np.concatenate(values), rtol=1e-6)


@pytest.mark.parametrize("side", [7, 64, 100, 1000])
@pytest.mark.parametrize("memory", [1, 50_000, 2**28])
def test_neither_blocks_nor_memory_change_the_result(side, memory, monkeypatch):
    texts = captions(150, 60)
    whole = found(texts, 10)
    assert whole[0] == naive(texts, 10)[0]
    monkeypatch.setattr(module, "_SIDE", side)
    assert found(texts, 10, memory=memory) == whole


def test_no_portion_makes_more_scores_than_fit(monkeypatch):
    monkeypatch.setattr(module, "_SIDE", 100)
    made = []
    offer = module._offer
    monkeypatch.setattr(
        module, "_offer", lambda best, p, *at: (made.append(p.nnz), offer(best, p, *at))
    )
    memory = 48 * 2000
    found(captions(500, 30), 10, memory=memory)
    assert len(made) > 20
    assert max(made) <= 2000


def test_copies_and_ties_go_by_index(monkeypatch):
    monkeypatch.setattr(module, "_SIDE", 50)
    # "dog" is as near to all of its companions, whose second words are equally rare.
    texts = [f"a dog and the rare{i}" for i in range(120)] + ["dog"] + ["The Dog!"] * 15
    others, scores = found(texts, 10)
    assert others[120] == list(range(121, 131))
    assert scores[120] == [1.0] * 10
    assert others[125] == list(range(120, 131))[:5] + list(range(126, 131))
    nearest_companions = found(texts[:121], 10)
    assert nearest_companions[0][120] == list(range(10))
    assert len(set(nearest_companions[1][120])) == 1
    assert nearest_companions[0][0] == [120, *range(1, 10)]


def test_texts_that_share_no_word_are_not_neighbours():
    texts = ["red house", "blue house", "the and of", "", "x y z", "solitary"]
    others, scores = found(texts, 10)
    assert others == [[1], [0], [], [], [], []]
    assert scores[0] == scores[1]
    assert 0 < scores[0][0] < 1


@pytest.mark.parametrize("texts", [[], ["the"], ["the", "and of", ""]])
def test_texts_without_any_words_have_no_neighbours(texts):
    assert tfidf(texts).shape == (len(texts), 0)
    assert found(texts, 10) == ([[]] * len(texts), [[]] * len(texts))


def test_other_faults_of_the_vectoriser_are_not_hidden():
    with pytest.raises((ValueError, AttributeError), match="None|NoneType"):
        tfidf(["dog", None])


def test_the_order_of_texts_changes_nothing_but_their_names():
    texts = [f"{text} unique{i} more{i % 7}" for i, text in enumerate(captions(200, 5000))]
    order = np.random.default_rng(1).permutation(200)
    straight, scores = found(texts, 5)
    shuffled, other_scores = found([texts[i] for i in order], 5)
    for new, old in enumerate(order.tolist()):
        assert other_scores[new] == scores[old]
        if len(set(scores[old])) == 5:  # no ties, which go by the new numbers
            by_old_number = [int(order[j]) for j in shuffled[new]]
            assert by_old_number[:4] == straight[old][:4]


@pytest.mark.parametrize(
    ("one", "near", "far"),
    [("桌子上有一个红色的圆形", "墙边有一个红色的圆形", "海滩日落"),
     ("ネコが座っています", "ネコがいます", "赤い車"), ("แมวสีแดง", "แมวสีดำ", "รถ"),
     ("ແມວສີແດງ", "ແມວສີດຳ", "ລົດ"), ("ឆ្មាក្រហម", "ឆ្មាខ្មៅ", "រថយន្ត"), ("ကြောင်နီ", "ကြောင်နက်", "ကား")],
)  # fmt: skip
def test_texts_without_blanks_share_letters(one, near, far):
    similar, other = tfidf_similarities([one, one], [near, far], [one, near, far])
    assert similar > max(other, 0.2)
    assert (mutual_tfidf([one, near, one, near, far]).sum(axis=1)[:4] > 0).all()


@pytest.mark.parametrize(
    ("one", "near", "far"),
    [("लाल बिल्ली सोती", "काली बिल्ली सोती", "लोग बीच में"), ("ބުޅަލެއް މޭޒު", "ބުޅަލެއް ގޮނޑި", "ކާރު"),
     ("חָתוּל אָדֹם", "חָתוּל לָבָן", "מְכוֹנִית")],
)  # fmt: skip
def test_words_with_vowel_signs_are_compared_whole(one, near, far):
    similar, other = tfidf_similarities([one, one], [near, far], [one, near, far])
    assert similar > 0.2
    assert other == 0
