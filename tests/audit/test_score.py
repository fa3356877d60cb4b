"""The score of a pair: chosen on the corpus, and no worse than any peer on each kind of corpus."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from mispair.audit.probability import probabilities_of, reliability
from mispair.audit.score import Ranks, deal, rank
from mispair.audit.trials import neighbour_disagreement, two_gaussians
from tests.audit.made_up import degenerate, embeddings, photographs, swapped


def scored(images, texts, source, scored=True, empty=None) -> Ranks:
    blocks = ((block, images[block], texts[block]) for block in deal(len(images), 0))
    names = np.arange(len(images)), source
    return rank(blocks, names, 0, replicates=2, scored=scored, empty=empty)


@pytest.mark.parametrize(
    "make",
    [
        lambda: photographs(2000, 0),
        lambda: photographs(2000, 1, apart=2.5, noise=1.4),
        lambda: embeddings(2000, noise=1.2),  # no topics, as scenes: neighbours say nothing
        lambda: embeddings(2000, noise=3.0),
    ],
)
@pytest.mark.parametrize("share", [0.03, 0.3])
@pytest.mark.parametrize("without_meaning", [0.0, 0.5, 1.0])
def test_no_peer_separates_better(make, share, without_meaning):
    """Some wrong captions, or all, are those of other pictures; the others are degenerate texts."""
    images, texts = make()
    source, wrong = swapped(len(images), share)
    empty = wrong & (np.random.default_rng(9).random(len(wrong)) < without_meaning)
    texts = degenerate(texts[source], empty)
    ranked = scored(images, texts, source, empty=empty)
    chance = probabilities_of(ranked, share, 0)
    peers = (
        -ranked.similarity, two_gaussians(ranked.similarity, 0),
        neighbour_disagreement(images, texts),
    )  # fmt: skip
    for area in (roc_auc_score, average_precision_score):
        # Twice the error of the difference with 60 wrong captions of 2,000 without topics.
        margin = 0.005 if empty.any() else 0.002
        assert area(wrong, chance) >= max(area(wrong, peer) for peer in peers) - margin
    if not empty.any():
        assert sum(
            n * abs(mean - found) for mean, found, n in reliability(chance, wrong)
        ) < 0.03 * len(wrong)  # fmt: skip


def test_neighbours_of_photographs_separate_better_than_cosines():
    images, texts = photographs(2000, 0)
    source, wrong = swapped(2000, 0.12)
    ranked = scored(images, texts[source], source)
    cosine = average_precision_score(wrong, -ranked.similarity)
    assert average_precision_score(wrong, -ranked.score) > cosine + 0.05
    assert min(ranked.score_weights) > 0


def test_texts_that_are_found_empty_count_as_wrong():
    images, texts = photographs(2000, 0, apart=2.5, noise=1.4)
    source = np.arange(2000)
    _, wrong = swapped(2000, 0.3)
    texts = degenerate(texts, wrong)
    unknown, known, nearly_all = (
        scored(images, texts, source, empty=empty)
        for empty in (None, wrong, np.arange(2000) % 20 > 0)
    )
    areas = [average_precision_score(wrong, -ranked.score) for ranked in (unknown, known)]
    assert areas[1] > areas[0] + 0.003
    np.testing.assert_array_equal(known.p_value, unknown.p_value)
    assert nearly_all.score_weights == unknown.score_weights


def test_a_random_caption_scores_as_a_wrong_one():
    images, texts = photographs(2000, 2)
    source, wrong = swapped(2000, 0.3)
    ranked = scored(images, texts[source], source)
    random = ranked.reference_score[np.isfinite(ranked.reference_score)]
    assert ranked.score[wrong].mean() == pytest.approx(random.mean(), abs=0.02)
    assert ranked.score[wrong].std() == pytest.approx(random.std(), rel=0.1)


@pytest.mark.parametrize("distinct", [1, 2, 12])
def test_repeated_captions_and_few_pairs_have_finite_scores(distinct):
    images, texts = embeddings(40)
    source = np.arange(40) % distinct
    ranked = scored(images, texts[source], source)
    assert np.isfinite(ranked.score).all()


def test_without_scores_pairs_are_ordered_by_cosines():
    images, texts = embeddings(300)
    plain = scored(images, texts, np.arange(300), scored=False)
    np.testing.assert_array_equal(plain.score, plain.similarity)
    more = scored(images, texts, np.arange(300))
    np.testing.assert_array_equal(more.p_value, plain.p_value)  # shares do not depend on scores
