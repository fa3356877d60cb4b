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

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from mispair.pairs.scenes.scene_captions import read_caption
from mispair.pairs.scenes.scene_features import FEATURES


@dataclass(frozen=True)
class EffectiveRate:
    """What is wrong in the captions of n pairs; shares are in [0, 1].

    Attributes
    ----------
    wrong_feature_share : float
        Effective rate by features.
    false_caption_share : float
        Effective rate by captions.
    unnamed_feature_share : float
        Mean over pairs of the share of the picture's features that the caption does not name.
    replaced_true_share : float
        Share of the replaced captions that are entirely true of the picture.
    replaced_same_features_share : float
        Share of the replaced captions that name the same features as the caption before.
    replaced_right_feature_share : float
        Mean over replaced captions of the share of named features that the picture has.
    """

    wrong_feature_share: float
    false_caption_share: float
    unnamed_feature_share: float
    replaced_true_share: float
    replaced_same_features_share: float
    replaced_right_feature_share: float

    def metadata(self) -> dict[str, str]:
        """Return the shares as text by name; shares of no replaced caption are ``nan``."""
        return {name: repr(float(value)) for name, value in asdict(self).items()}


def effective_rate(
    pictures: np.ndarray, before: np.ndarray, after: np.ndarray, replaced: np.ndarray
) -> EffectiveRate:
    """Measure how wrong the captions of a corpus are after a scheme of corruption.

    Parameters
    ----------
    pictures, before, after : (n, f) bool array
        The features that each picture has, and that its caption names before and after.
    replaced : (n,) bool array
        Whether the pair has another text.
    """
    wrong = _share(after & ~pictures, after)
    return EffectiveRate(
        _mean(wrong),
        _mean(wrong > 0),
        _mean(_share(pictures & ~after, pictures)),
        _mean(wrong[replaced] == 0),
        _mean((before == after).all(axis=1)[replaced]),
        _mean(1 - wrong[replaced]),
    )


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return the share of each row's true entries; 0 for a row without any."""
    return np.asarray(part.sum(axis=1) / np.maximum(whole.sum(axis=1), 1))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def codes(features: Sequence[Sequence[str]]) -> np.ndarray:
    """Return lists of features as binary codes, (n, f) bool.

    Raises
    ------
    KeyError
        If a name is not in `scene_features.FEATURES`.
    """
    position = {feature: column for column, feature in enumerate(FEATURES)}
    entries = [(row, position[name]) for row, names in enumerate(features) for name in names]
    binary = np.zeros((len(features), len(FEATURES)), bool)
    binary[tuple(np.array(entries, dtype=np.int64).reshape(-1, 2).T)] = True
    return binary


def named_codes(captions: Sequence[str]) -> np.ndarray:
    """Return the features that sentences about scenes name as binary codes, (n, f) bool."""
    return codes([read_caption(caption) for caption in captions])


@dataclass(frozen=True)
class Variety:
    """How many different captions the pairs have, and how often the most used one occurs."""

    distinct_captions: int
    most_used_caption: int

    def metadata(self) -> dict[str, str]:
        """Return the counts as text by name."""
        return {name: str(value) for name, value in asdict(self).items()}


def variety(given: np.ndarray) -> Variety:
    """Count the distinct captions of pairs, (n,) uint64, and the pairs with the commonest."""
    _, times = np.unique(given, return_counts=True)
    return Variety(len(times), int(times.max(initial=0)))
