"""Retrieval (recall at 1, 5 and 10), and the choice of an image's true caption."""

from typing import NamedTuple

import numpy as np

from mispair.core.distributions import Row, mean_of_shares, share_row, wilson
from mispair.evaluation.classification import normalised, starts_of_classes

BEST = (1, 5, 10)
"""Values of k in recall at k."""

TIE = 1e-6
"""Cosines closer than this are equal: rounding in the towers changes equal captions this much."""

BLOCK_ENTRIES = 1 << 21
"""Entries of the largest block of cosines: 16 megabytes."""


def ranks(
    images: np.ndarray, captions: np.ndarray, image_of_caption: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return how many wrong results precede the first right one, for captions and images.

    Ties count against the model: a wrong result that is as similar as the right one precedes it.
    So ranks do not depend on the order of images or captions. A model that gives everything the
    same embedding retrieves nothing, and another image's caption with the same words is wrong.

    Parameters
    ----------
    images : (n, e) array
        Embeddings of length one.
    captions : (m, e) array
        Embeddings of length one, those of an image adjacent.
    image_of_caption : (m,) int array
        Image of each caption, from 0 to n - 1; every image has at least one.

    Returns
    -------
    image_ranks : (m,) int64 array
        For each caption, images before its own.
    text_ranks : (n,) int64 array
        For each image, captions of others before the most similar one of its own.

    Raises
    ------
    ValueError
        If an image has no caption, or a caption no image.
    """
    starts = starts_of_classes(image_of_caption, len(captions))
    if len(starts) != len(images):
        raise ValueError(f"there are captions of {len(starts)} images, but {len(images)} images")
    own_scores = np.einsum("ij,ij->i", captions, images[image_of_caption])
    best = np.maximum.reduceat(own_scores, starts)
    ends = np.append(starts[1:], len(captions))
    image_ranks = np.zeros(len(captions), dtype=np.int64)
    text_ranks = np.empty(len(images), dtype=np.int64)
    block = max(1, BLOCK_ENTRIES // len(captions))
    for first in range(0, len(images), block):
        rows = slice(first, min(first + block, len(images)))
        cosines = images[rows] @ captions.T
        mine = np.arange(starts[rows.start], ends[rows.stop - 1])
        cosines[image_of_caption[mine] - first, mine] = -np.inf
        image_ranks += (cosines >= own_scores - TIE).sum(axis=0)
        text_ranks[rows] = (cosines >= best[rows, None] - TIE).sum(axis=1)
    return image_ranks, text_ranks


def recalls(images: np.ndarray, captions: np.ndarray, image_of_caption: np.ndarray) -> list[Row]:
    """Return recall at 1, 5 and 10 in both directions by CLIP_benchmark.

    ``image_recall@k`` is the share of captions whose image is among the k most similar ones (its
    ``image_retrieval_recall@k``); ``text_recall@k`` is the share of images with at least one of
    their captions among the k most similar ones (``text_retrieval_recall@k``). Parameters and
    errors are those of `ranks`.

    Returns
    -------
    list of dict
        Rows with ``metric``, ``value``, ``n`` (queries), ``low``, ``high`` (Wilson's 95 %
        interval) and ``chance`` (of a random order).
    """
    image_ranks, text_ranks = ranks(images, captions, image_of_caption)
    n, m = len(images), len(captions)
    counts = np.bincount(image_of_caption)
    rows = []
    for k in BEST:
        rows.append(share_row(f"image_recall@{k}", int((image_ranks < k).sum()), m, min(k, n) / n))
        # k captions drawn without replacement hold none of an image's c own ones.
        drawn = np.arange(min(k, m))
        none = np.prod(np.maximum(m - counts[:, None] - drawn, 0) / (m - drawn), axis=1)
        hits, chance = int((text_ranks < k).sum()), float(1 - none.mean())
        rows.append(share_row(f"text_recall@{k}", hits, n, chance))
    return rows


# Choice of an image's caption by a model, on compositional sets such as SugarCrepe and ARO.
#
# Every image has a few captions, and only the first one is true. An answer is right if the true
# caption is the most similar one. Between equally similar captions the answer is drawn by lot, and
# its credit is the probability of the right draw: one half between two captions. CLIP's public
# evaluations count such a question as right, because the true caption is the first.
#
# An example of Winoground is two images and two captions; each caption is true of one image. Its
# scores [1]_ require both right captions (text), both right images (image), or all four (group).
#
# References
# ----------
# .. [1] T. Thrush, R. Jiang, M. Bartolo, A. Singh, A. Williams, D. Kiela and C. Ross (2022),
#    Winoground: Probing vision and language models for visio-linguistic compositionality, CVPR.

SELECTION, MACRO, BLIND = "selection_acc", "selection_macro", "selection_blind"
"""Share of right answers, its mean over categories, and the share without images."""

OF_CATEGORY, BLIND_OF_CATEGORY = "category_selection_acc", "category_selection_blind"

CHANCE_OF_PAIRS = {"text_score": 1 / 4, "image_score": 1 / 4, "group_score": 1 / 6}
"""Probability of each score if four similarities are in a random order."""


class Questions(NamedTuple):
    """The questions of a set.

    Attributes
    ----------
    image_of_caption : (m,) int array
        Image of each caption, from 0 to n - 1, in ascending order. The first caption of an image
        is true; every image has at least two.
    categories : (n,) int array
        Category of each image's question, an index of `names`; all -1 in a set without categories.
    names : tuple of str
        Names of the categories.
    pairs : (n,) int array
        Images with the same number are one example of two images and two captions; -1 for others.
    """

    image_of_caption: np.ndarray
    categories: np.ndarray
    names: tuple[str, ...]
    pairs: np.ndarray


def credits(
    images: np.ndarray, captions: np.ndarray, image_of_caption: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the credit of each answer, and whether it was drawn by lot.

    Parameters
    ----------
    images : (n, e) array
        Embeddings of length one; or (1, e), one embedding that replaces those of all images.
    captions : (m, e) array
        Embeddings of length one, those of an image side by side, the true one first.
    image_of_caption : (m,) int array
        Image of each caption, from 0 to n - 1.

    Returns
    -------
    credit : (n,) float64 array
        1 for a right answer, 0 for a wrong one, 1 / k if k captions, the true one among them, are
        the most similar ones.
    tied : (n,) bool array
        Whether the true caption shares the first place.

    Raises
    ------
    ValueError
        If an image has fewer than two captions, or a caption no image.
    """
    starts = starts_of_classes(image_of_caption, len(captions))
    counts = np.diff(starts, append=len(captions))
    if len(images) not in (1, len(starts)):
        raise ValueError(f"there are captions of {len(starts)} images, but {len(images)} images")
    if (counts < 2).any():
        raise ValueError(f"image {np.flatnonzero(counts < 2)[0]} has one caption only")
    rows = images[image_of_caption] if len(images) > 1 else np.broadcast_to(images, captions.shape)
    scores = np.einsum("ij,ij->i", captions, rows)
    apart = scores - scores[starts][image_of_caption]
    beaten = np.maximum.reduceat(apart, starts) > TIE
    equal = np.add.reduceat((np.abs(apart) <= TIE).astype(np.int64), starts)
    return np.where(beaten, 0.0, 1 / equal), ~beaten & (equal > 1)


def pair_credits(
    images: np.ndarray, captions: np.ndarray, questions: Questions
) -> dict[str, np.ndarray]:
    """Return Winoground's scores of each example of two images.

    Parameters
    ----------
    images, captions : arrays
        As in `credits`.
    questions : Questions
        Their ``pairs`` give the images of each example. Both have the same two captions, the true
        one first.

    Returns
    -------
    dict of str to (p,) float64 array
        ``text_score``, ``image_score`` and ``group_score``; ties count half for each comparison.

    Raises
    ------
    ValueError
        If a number of `pairs` does not belong to exactly two images.
    """
    members = np.flatnonzero(questions.pairs >= 0)
    order = members[np.argsort(questions.pairs[members], kind="stable")]
    numbers = questions.pairs[order]
    first, second = order[::2], order[1::2]
    whole = len(order) % 2 == 0 and (numbers[::2] == numbers[1::2]).all()
    if not whole or len(np.unique(numbers)) != len(first):
        raise ValueError("an example does not have exactly two images")
    starts = starts_of_classes(questions.image_of_caption, len(captions))
    one, two = captions[starts[first]], captions[starts[second]]
    of_one, of_two = images[first], images[second]

    def wins(image: np.ndarray, caption: np.ndarray, crossed_score: np.ndarray) -> np.ndarray:
        apart = np.einsum("ij,ij->i", image, caption) - crossed_score
        return np.where(np.abs(apart) <= TIE, 0.5, apart > 0)

    crossed = np.einsum("ij,ij->i", of_one, two), np.einsum("ij,ij->i", of_two, one)
    text = wins(of_one, one, crossed[0]) * wins(of_two, two, crossed[1])
    image = wins(of_one, one, crossed[1]) * wins(of_two, two, crossed[0])
    return {"text_score": text, "image_score": image, "group_score": text * image}


def selections(
    images: np.ndarray, captions: np.ndarray, questions: Questions, pictures: np.ndarray
) -> tuple[np.ndarray, list[Row]]:
    """Return the credit of each question, and the scores of a set with 95 % intervals.

    The control ``selection_blind`` answers the same questions with the mean of all images instead
    of each. A score of it above chance comes from the words, and is no evidence that a model sees.

    Parameters
    ----------
    images, captions : arrays
        As in `credits`.
    questions : Questions
        The questions of the set.
    pictures : (n,) int array
        Images with the same number are the same picture. All questions about one picture, of any
        category, count as one trial in all intervals. So intervals are too wide rather than too
        narrow.

    Returns
    -------
    credit : (n,) float64 array
        See `credits`.
    rows : list of dict
        Rows with ``metric``, ``value``, ``n`` (questions; or examples, for those of two images),
        ``low``, ``high`` (Wilson's interval, or the combined one for the mean over categories) and
        ``chance``. Rows of a category carry its name as ``classname``.
    """
    counts = np.bincount(questions.image_of_caption)
    chances = 1 / counts
    credit, tied = credits(images, captions, questions.image_of_caption)
    mean = normalised(images.mean(axis=0, keepdims=True))
    blind, _ = credits(mean, captions, questions.image_of_caption)
    everything = np.arange(len(credit))
    rows = [
        _share_row(SELECTION, credit, pictures, float(chances.mean())),
        _share_row(BLIND, blind, pictures, float(chances.mean())),
        {"metric": "selection_ties", "value": float(tied.mean()), "n": len(tied)},
    ]
    present = [name for name in range(len(questions.names)) if name in questions.categories]
    groups = [everything[questions.categories == number] for number in present]
    if groups:
        shares = np.array([credit[group].mean() for group in groups])
        trials = np.array([len(np.unique(pictures[group])) for group in groups], dtype=np.float64)
        trials *= len(np.unique(pictures)) / trials.sum()  # Less than one if categories share some.
        low, high = mean_of_shares(shares * trials, trials)
        chance = float(np.mean([chances[group].mean() for group in groups]))
        rows.append({
            "metric": MACRO, "value": float(shares.mean()), "n": len(credit),
            "low": low, "high": high, "chance": chance,
        })  # fmt: skip
    for number, group in zip(present, groups, strict=True):
        for metric, values in ((OF_CATEGORY, credit), (BLIND_OF_CATEGORY, blind)):
            row = _share_row(metric, values[group], pictures[group], float(chances[group].mean()))
            rows.append({**row, "classname": questions.names[number]})
    if (questions.pairs >= 0).any():
        for metric, values in pair_credits(images, captions, questions).items():
            examples = np.arange(len(values))
            rows.append(_share_row(metric, values, examples, CHANCE_OF_PAIRS[metric]))
    return credit, rows


def _share_row(metric: str, credit: np.ndarray, pictures: np.ndarray, chance: float) -> Row:
    value, trials = float(credit.mean()), len(np.unique(pictures))
    low, high = wilson(value * trials, trials)
    return {
        "metric": metric, "value": value, "n": len(credit),
        "low": low.item(), "high": high.item(), "chance": chance,
    }  # fmt: skip
