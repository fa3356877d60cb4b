"""Similar pairs exchange their captions, as in the paper's public code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mispair.core.files import UserError
from mispair.pairs.corruption.scheme import Scheme

if TYPE_CHECKING:
    from mispair.pairs.captions.caption_texts import CaptionedPairs
    from mispair.pairs.corruption.corrupted import Corrupted, Sources

SCHEME = Scheme(
    effect="exchanges captions between similar pairs until the share is swapped, as the paper's "
    "public code does (TF-IDF of words and pairs of words, at most 5,000 terms in at least two "
    "captions and at most 95 % of them), so that each caption is used as often as before; it takes "
    "at most 200,000 pairs",
    rate="the share of pairs that get another caption (C_m)",
)

MOST_PAIRS = 200_000
"""Largest number of pairs that the scheme accepts. The cost grows with its square."""


def apply(pairs: CaptionedPairs, rate: float, seed: int, sources: Sources) -> Corrupted:
    """Exchange captions of mutually similar pairs."""
    from mispair.core import seeds
    from mispair.pairs.captions.caption_texts import read_texts
    from mispair.pairs.corruption.corrupted import STEP, Corrupted, rounding
    from mispair.pairs.corruption.mutual_swaps import mutual_tfidf, swap_similar

    original = pairs.caption_ids
    if len(original) > MOST_PAIRS:
        raise UserError(
            f"corrupt_captions: the scheme similar-swap compares all pairs with each other, which "
            f"takes days for {len(original):,}; it is for at most {MOST_PAIRS:,}. Use the scheme "
            "similar instead."
        )
    texts = read_texts(sources.index.values(), original)
    vectors = mutual_tfidf([texts[number] for number in original.tolist()])

    def equal(pair: int) -> np.ndarray:
        mine = (pairs.alternatives == original[pair]).any(axis=1)
        return np.asarray(mine | np.isin(original, pairs.alternatives[pair]))

    done = swap_similar(vectors, rate, seeds.generator(seed, STEP, "similar-swap"), equal)
    swapped = done.source != np.arange(len(original))
    mean = float(done.similarity.mean()) if len(done.similarity) else float("nan")
    short = int(2 * round(rate * len(original) / 2) - swapped.sum())
    note = (
        f"{short:,} pairs fewer than wanted are swapped, because all remaining pairs have the "
        "same caption."
    )
    rounded = rounding(int(swapped.sum()), len(original), rate)
    return Corrupted(
        original[done.source], swapped, {"neighbour_similarity": repr(mean)},
        note if short else rounded, source=done.source,
    )  # fmt: skip
