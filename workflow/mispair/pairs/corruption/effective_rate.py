"""How wrong captions are, where the features of the pictures are known.

A nominal rate counts the pairs that get another caption. Another caption may still be true of the
picture, so equal nominal rates of two schemes are not equal doses. The two effective rates count
what is wrong in the captions that the pairs have afterwards:

- by features: the mean over pairs of the share of the caption's features that the picture does not
  have;
- by captions: the share of pairs whose caption names at least one such feature.

Both are 0 for a corpus of true captions. Features that a caption leaves out do not make it wrong;
they are counted separately.
"""

from collections.abc import Sequence

import numpy as np

from mispair.pairs.scenes.scene_captions import codes, read_caption

SHARES = (
    "wrong_feature_share",
    "false_caption_share",
    "unnamed_feature_share",
    "replaced_true_share",
    "replaced_same_features_share",
    "replaced_right_feature_share",
)
"""Names of the shares of `effective_rate`."""

COUNTS = ("distinct_captions", "most_used_caption")
"""Names of the counts of `variety`."""


def effective_rate(
    pictures: np.ndarray, before: np.ndarray, after: np.ndarray, replaced: np.ndarray
) -> dict[str, float]:
    """Measure how wrong the captions of a corpus are after a scheme of corruption.

    Parameters
    ----------
    pictures, before, after : (n, f) bool array
        The features that each picture has, and that its caption names before and after.
    replaced : (n,) bool array
        Whether the pair has another text.

    Returns
    -------
    dict of str to float
        Shares in [0, 1], by the names of `SHARES`: the effective rate by features, and that by
        captions; the mean over pairs of the share of the picture's features that the caption does
        not name; the share of the replaced captions that are entirely true of the picture, and of
        those that name the same features as the caption before; and the mean over replaced captions
        of the share of named features that the picture has. Shares of no replaced caption are nan.
    """
    wrong = _share(after & ~pictures, after)
    values = (
        wrong,
        wrong > 0,
        _share(pictures & ~after, pictures),
        wrong[replaced] == 0,
        (before == after).all(axis=1)[replaced],
        1 - wrong[replaced],
    )
    return {name: _mean(value) for name, value in zip(SHARES, values, strict=True)}


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return the share of each row's true entries; 0 for a row without any."""
    return np.asarray(part.sum(axis=1) / np.maximum(whole.sum(axis=1), 1))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def named_codes(captions: Sequence[str]) -> np.ndarray:
    """Return the features that sentences about scenes name as binary codes, (n, f) bool."""
    return codes([read_caption(caption) for caption in captions])


def variety(given: np.ndarray) -> dict[str, int]:
    """Count the distinct captions of pairs, (n,) uint64, and the pairs with the commonest.

    Returns the counts by the names of `COUNTS`.
    """
    _, times = np.unique(given, return_counts=True)
    return dict(zip(COUNTS, (len(times), int(times.max(initial=0))), strict=True))
