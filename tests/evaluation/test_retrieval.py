"""Retrieval against CLIP_benchmark, a case by hand and a plain sort."""

import numpy as np
import pytest
import torch
from clip_benchmark.metrics import zeroshot_retrieval

from mispair.core import intervals
from mispair.evaluation import retrieval
from mispair.evaluation.classification import normalised


class Identity(torch.nn.Module):
    """A model whose pictures and tokens are embeddings."""

    def encode_image(self, images):
        return images

    def encode_text(self, tokens):
        return tokens


def _set(n, per_image, seed=0, e=6):
    draw = np.random.default_rng(seed)
    images = normalised(draw.standard_normal((n, e)))
    owners = np.repeat(np.arange(n), per_image)
    captions = normalised(images[owners] + 0.4 * draw.standard_normal((len(owners), e)))
    return images, captions, owners


def _values(rows):
    return {row["metric"]: row["value"] for row in rows}


@pytest.mark.parametrize("per_image", [5, "ragged"])
def test_recalls_are_those_of_clip_benchmark(per_image):
    n = 60
    if per_image == "ragged":
        per_image = np.random.default_rng(1).integers(1, 8, n)
    images, captions, owners = _set(n, per_image)
    batches = [
        (torch.tensor(images[rows]), [np.flatnonzero(owners == i).tolist() for i in rows])
        for rows in np.split(np.arange(n), [16, 32, 48])
    ]
    expected = zeroshot_retrieval.evaluate(
        Identity(), batches, lambda rows: torch.tensor(captions[rows]), "cpu", False, [1, 5, 10]
    )
    found = _values(retrieval.recalls(images, captions, owners))
    assert {name.replace("_recall", "_retrieval_recall") for name in found} == set(expected)
    for name, value in found.items():
        assert value == pytest.approx(expected[name.replace("_recall", "_retrieval_recall")])
    assert 0.2 < found["image_recall@1"] < found["image_recall@5"] < found["image_recall@10"] < 1
    assert found["text_recall@1"] != found["image_recall@1"]


def test_five_captions_an_image_by_hand():
    """Two images on the axes; five captions each, at angles that were chosen."""
    degrees = np.array([0, 10, 20, 50, 80, 90, 85, 75, 30, 5])
    captions = np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=1)
    images, owners = np.eye(2), np.repeat([0, 1], 5)
    image_ranks, text_ranks = retrieval.ranks(images, captions, owners)
    # A caption finds its image if it stands on the right side of 45 degrees.
    assert image_ranks.tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 1, 1]
    # Both images have a caption of their own at the very axis.
    assert text_ranks.tolist() == [0, 0]
    # Without it, a caption of the other one stands before: 5 degrees before 10, 80 before 75.
    captions[[0, 5, 6]] = captions[[3, 8, 8]]
    assert retrieval.ranks(images, captions, owners)[1].tolist() == [1, 1]
    rows = {row["metric"]: row for row in retrieval.recalls(images, captions, owners)}
    assert rows["text_recall@1"]["value"] == 0
    assert rows["text_recall@5"]["value"] == 1
    assert rows["image_recall@1"]["value"] == 0.3  # of 10 and 20, and 75 degrees
    assert rows["image_recall@5"]["value"] == 1
    assert (rows["image_recall@1"]["n"], rows["text_recall@1"]["n"]) == (10, 2)
    low, high = intervals.wilson(3, 10)
    assert (rows["image_recall@1"]["low"], rows["image_recall@1"]["high"]) == (low, high)
    assert rows["image_recall@1"]["chance"] == 1 / 2
    assert rows["text_recall@1"]["chance"] == pytest.approx(1 / 2)
    # Five captions of ten are all of the other image in one of C(10, 5) = 252 cases.
    assert rows["text_recall@5"]["chance"] == pytest.approx(251 / 252)
    assert rows["text_recall@10"]["chance"] == 1


def test_blocks_change_nothing_and_ranks_are_those_of_a_sort(monkeypatch):
    images, captions, owners = _set(40, 3, seed=2)
    whole = retrieval.ranks(images, captions, owners)
    monkeypatch.setattr(retrieval, "BLOCK_ENTRIES", 7 * len(captions))  # blocks of 7 images
    for one, other in zip(retrieval.ranks(images, captions, owners), whole, strict=True):
        np.testing.assert_array_equal(one, other)
    cosines = captions @ images.T
    by_caption = np.argsort(-cosines, axis=1)
    np.testing.assert_array_equal((by_caption == owners[:, None]).argmax(1), whole[0])
    by_image = owners[np.argsort(-cosines.T, axis=1)]
    np.testing.assert_array_equal((by_image == np.arange(40)[:, None]).argmax(1), whole[1])


def test_ties_count_against_the_model_whatever_the_order():
    """One embedding for everything retrieves nothing; rounding decides no tie."""
    images, captions, owners = np.ones((20, 4)) / 2, np.ones((40, 4)) / 2, np.repeat(range(20), 2)
    image_ranks, text_ranks = retrieval.ranks(images, captions, owners)
    assert set(image_ranks) == {19}
    assert set(text_ranks) == {38}
    noise = 1e-8 * np.random.default_rng(0).standard_normal((40, 4))
    np.testing.assert_array_equal(retrieval.ranks(images, captions + noise, owners)[0], image_ranks)
    # Images 0 and 1 have one caption of equal words: neither direction tells them apart.
    images = np.eye(3)
    captions = normalised(np.array([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]]))
    found = retrieval.ranks(images, captions, np.arange(3))
    assert [one.tolist() for one in found] == [[1, 1, 0], [1, 1, 0]]
    # A result is no rival of its own, also where all are far away.
    found = retrieval.ranks(np.eye(3), -np.eye(3), np.arange(3))
    assert [one.tolist() for one in found] == [[2, 2, 2], [2, 2, 2]]


def test_images_and_captions_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="captions of 2 images, but 3 images"):
        retrieval.ranks(np.eye(3), np.eye(3), np.array([0, 0, 1]))
    with pytest.raises(ValueError, match="class 1 has no prompt"):
        retrieval.ranks(np.eye(3), np.eye(3), np.array([0, 2, 2]))
