"""Test of a trained captioner on trusted pairs that it has not learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mispair.audit.rate import Z_ONE_SIDED
from mispair.core import seeds
from mispair.repair.captioners.decoding import room_for
from mispair.repair.captioners.vocabulary import tidy, tokenized

if TYPE_CHECKING:
    import pandas as pd

    from mispair.repair.captioners.faults import Caption
    from mispair.repair.captioners.trained import TrainedCaptioner
    from mispair.repair.captioners.vocabulary import Tokenizer, Tokens

SHARE, LEAST, MOST = 0.1, 20, 500
"""Share of the trusted pictures that are held out, and how many at least and at most."""

LEARNED_FROM = 2
"""The captioner learns from at least this many times as many pictures as are held out."""


@dataclass(frozen=True)
class HeldOut:
    """How close captions of held-out pictures are to their right captions.

    Attributes
    ----------
    captioner, typical : float
        Mean cosine of a picture's right captions with its new caption, and with the most typical
        caption that the captioner learned from, which is the one closest to their mean: TF-IDF
        vectors of tokens.
    error : float
        Standard error of the difference, over pictures.
    pictures : int
        Number of held-out pictures.
    """

    captioner: float
    typical: float
    error: float
    pictures: int

    @property
    def is_better(self) -> bool:
        """Whether the captioner is better than one caption for all pictures (one-sided, 95 %)."""
        return self.captioner - self.typical > Z_ONE_SIDED * self.error


def drawn(pictures: int, seed: int) -> np.ndarray:
    """Return which of n pictures are held out, (n,) bool; none of too few for a test."""
    number = min(MOST, max(LEAST, round(SHARE * pictures)))
    held = np.zeros(pictures, bool)
    if pictures >= (1 + LEARNED_FROM) * number:
        order = seeds.generator(seed, "captioner", "held out").permutation(pictures)
        held[order[:number]] = True
    return held


def examined(
    captioner: TrainedCaptioner,
    features: np.ndarray,
    right: pd.DataFrame,
    learned: Sequence[str],
    tokenizer: Tokenizer,
) -> tuple[HeldOut, list[Caption]]:
    """Return how close the captions of held-out pictures are, and these captions.

    Parameters
    ----------
    captioner : TrainedCaptioner
        Has not learned from these pictures.
    features : (n, d) array
        Of the pictures, by key.
    right : DataFrame
        ``key`` and ``caption`` of their right captions.
    learned : sequence of str
        Captions that the captioner learned from.
    tokenizer : callable
        Of the towers.
    """
    keys = right["key"].drop_duplicates().tolist()
    new = captioner.caption(features, keys)
    room = room_for(captioner.settings.max_words)
    texts = (["" if caption.reason else caption.text for caption in new], right["caption"], learned)
    of_new, of_right, of_learned = (
        tokenized(tokenizer, [*map(tidy, some)], room) for some in texts
    )
    pictures = right["key"].map(dict(zip(keys, range(len(keys)), strict=True))).to_numpy()
    return compare(of_new, of_right, pictures, of_learned), new


def warning(result: HeldOut, is_used: bool) -> str:
    """Return what to do about a captioner that is no better than one caption for all."""
    use = "read some before you use them" if is_used else "none is used"
    return (
        f"recaption_pairs: on {result.pictures} trusted pairs that were held out, new captions are "
        f"no closer to the right ones (cosine {result.captioner:.3f}) than the most typical "
        f"trusted caption is ({result.typical:.3f}), so {use}. Trust more pairs, name another "
        "captioner, or set recaption_pairs.use_if_not_better: true."
    )


def compare(new: Tokens, right: Tokens, pictures: np.ndarray, learned: Tokens) -> HeldOut:
    """Compare new captions, and the most typical of others, with the right ones.

    Parameters
    ----------
    new : Tokens
        The new caption of each of n held-out pictures; without tokens where it is unusable.
    right : Tokens
        Right captions of these pictures.
    pictures : (m,) int array
        The picture, of n, of each right caption.
    learned : Tokens
        Captions that the captioner learned from.
    """
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.preprocessing import normalize

    ids = np.unique(np.concatenate([_inside(tokens)[1] for tokens in (new, right, learned)]))
    weighting = TfidfTransformer()
    before = weighting.fit_transform(_counts(learned, ids))
    of_right = weighting.transform(_counts(right, ids))
    of_new = weighting.transform(_counts(new, ids))[pictures]
    mean = normalize(np.asarray(before.mean(axis=0)).reshape(1, -1))
    typical = before[[int(np.argmax(before @ mean.T))]]
    number = np.bincount(pictures)
    cosines = [
        np.bincount(pictures, np.asarray(values).ravel()) / number
        for values in (of_right.multiply(of_new).sum(axis=1), (of_right @ typical.T).toarray())
    ]
    difference = cosines[0] - cosines[1]
    error = float(difference.std(ddof=1)) / len(number) ** 0.5
    return HeldOut(float(cosines[0].mean()), float(cosines[1].mean()), error, len(number))


def _inside(tokens: Tokens) -> tuple[np.ndarray, np.ndarray]:
    """Return the text and the number of every token."""
    inside = np.arange(tokens.ids.shape[1]) < tokens.lengths[:, None]
    return np.nonzero(inside)[0], tokens.ids[inside]


def _counts(tokens: Tokens, ids: np.ndarray) -> object:
    from scipy.sparse import csr_array

    texts, numbers = _inside(tokens)
    places = (texts, np.searchsorted(ids, numbers))
    return csr_array((np.ones(len(texts)), places), shape=(len(tokens.lengths), len(ids)))
