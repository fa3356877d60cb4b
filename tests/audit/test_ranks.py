"""Ranks among random captions: against a plain loop, and uniform under the null."""

import numpy as np
import pytest
from scipy.stats import kstest

from mispair.audit.rate import untrusted_rates
from mispair.audit.score import BINS, _draws, _draws_of_rivals, deal, rank
from tests.audit.made_up import embeddings, swapped, unit


def ranked(images, texts, same=None, seed=0, size=2048, replicates=20):
    n = len(images)
    own = same or (np.arange(n), np.arange(n))
    blocks = ((block, images[block], texts[block]) for block in deal(n, seed, size))
    return rank(blocks, own, seed, replicates=replicates)


def test_blocks_hold_every_pair_once_and_are_drawn_by_the_seed():
    blocks = deal(5000, 3)
    assert sorted(np.concatenate(blocks)) == list(range(5000))
    assert {len(block) for block in blocks} <= {2500}
    assert not np.array_equal(np.concatenate(blocks), np.concatenate(deal(5000, 4)))
    assert len(deal(100, 0)) == 1


def test_ranks_are_those_of_a_plain_loop():
    images, texts = embeddings(60, noise=3)
    groups = np.arange(60) // 2, np.arange(60) % 50
    found = ranked(images, texts, groups, size=30)
    for block in deal(60, 0, 30):
        for i in block:
            rivals = [j for j in block if groups[0][i] != groups[0][j] != -1
                      and groups[1][i] != groups[1][j]]  # fmt: skip
            own = images[i] @ texts[i]
            for vector, others, p in (
                (images[i], texts, found.p_value), (texts[i], images, found.picture_p_value),
            ):  # fmt: skip
                better = sum(others[j] @ vector > own for j in rivals)
                assert better / (len(rivals) + 1) <= p[i] <= (better + 1) / (len(rivals) + 1)
            assert found.similarity[i] == pytest.approx(own, abs=1e-6)
    pairs = sum(
        groups[0][i] == groups[0][j] or groups[1][i] == groups[1][j]
        for block in deal(60, 0, 30) for i in block for j in block if i != j
    )  # fmt: skip
    assert found.excluded == pairs


def test_draws_of_rivals_are_the_product_of_their_matrix_with_the_draws():
    numbers, pairs = np.random.default_rng(0), np.arange(60)[::-2]
    same = numbers.integers(0, 20, 60), numbers.integers(0, 30, 60)
    rivals = np.logical_and(*(names[pairs][:, None] != names[pairs] for names in same))
    weights = _draws(3, 1, len(pairs), 7)[2]
    assert weights.max() > 1
    found = _draws_of_rivals(weights, same, pairs).numpy()
    np.testing.assert_array_equal(found, rivals.astype(np.float32) @ weights.numpy())


def test_random_captions_have_uniform_ranks_whatever_the_model():
    images, texts = embeddings(4000)
    texts = texts + 0.5 * texts[0]  # a model that likes one direction in all captions
    source, _ = swapped(4000, 1.0)
    found = ranked(images, texts[source], (np.arange(4000), source))
    assert kstest(found.p_value, "uniform").pvalue > 0.01
    assert kstest(found.picture_p_value, "uniform").pvalue > 0.01
    same = np.zeros((4000, 32), np.float32) + images[:1]
    assert kstest(ranked(same, same).p_value, "uniform").pvalue > 0.01  # nothing but ties


def test_histograms_count_every_pair_in_both_halves():
    images, texts = embeddings(3000)
    found = ranked(images, texts)
    assert found.histograms.shape == (3, 2, 21, BINS)
    every = *found.p_values, found.p_values.max(axis=0)
    for histograms, values in zip(found.histograms, every, strict=True):
        measured = histograms[:, 0].sum(axis=0)
        expected = np.bincount(np.minimum((values * BINS).astype(int), BINS - 1), minlength=BINS)
        np.testing.assert_allclose(measured, expected, atol=2)  # p-values are rounded in between
        assert measured.sum() == 3000
        # Bootstrap weights are Poisson(1): replicates differ, and have n pairs on average.
        totals = histograms.sum(axis=(0, 2))[1:]
        assert totals.mean() == pytest.approx(3000, rel=0.02)
        assert totals.std() > 10


@pytest.mark.parametrize(("captions", "pictures"), [(0.2, 0.0), (0.0, 0.2), (0.1, 0.1), (0.3, 0.3)])
def test_the_limit_counts_captions_and_pictures_that_fit_everything_together(captions, pictures):
    """A caption that fits all pictures has a picture of any rank, and a picture that fits all
    captions has a caption of any rank."""
    n, held, reached = 2000, 0, []
    for draw in range(10):
        generator = np.random.default_rng(100 + draw)
        images, texts = (x + 0.5 * np.eye(32)[0] for x in embeddings(n, draw, noise=0.5))
        noise, chosen = 0.1 * generator.standard_normal((n, 32)), generator.permutation(n)
        stock, collages = np.split(chosen, [round(captions * n)])
        collages = collages[: round(pictures * n)]
        texts[stock], images[collages] = (np.eye(32)[0] + noise[x] for x in (stock, collages))
        found = ranked(unit(images), unit(texts))
        limit = untrusted_rates(found.histograms)[1].high
        held += limit >= captions + pictures
        reached.append(limit)
    assert held >= 9
    assert np.mean(reached) < 1.3 * (captions + pictures) + 0.03


def test_references_are_captions_of_other_pairs():
    images, texts = embeddings(500)
    found = ranked(images, texts)
    scores = images @ texts.T
    np.fill_diagonal(scores, 9)
    for row in (0, 17, 499):
        for value in found.reference_score[row]:
            assert np.abs(scores[row] - value).min() < 1e-5
    assert np.isfinite(found.reference_score).all()
