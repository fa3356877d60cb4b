"""Each pair of a random subset gets one of the captions most similar to its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mispair.core.files import UserError
from mispair.pairs.corruption.scheme import Scheme

if TYPE_CHECKING:
    from mispair.pairs.captions.caption_texts import CaptionedPairs
    from mispair.pairs.corruption.corrupted import Corrupted, Sources

SCHEME = Scheme(
    effect="gives each pair of the subset of random one of the most similar other captions of "
    "find_similar_captions, so that some captions are used often and others by no pair",
    rate="the share of pairs that get another caption (C_m)",
    reads=frozenset({"similar"}),
    audited="similar",
)


def apply(pairs: CaptionedPairs, rate: float, seed: int, sources: Sources) -> Corrupted:
    """Draw a similar caption for each chosen pair; those without one keep theirs."""
    from mispair.pairs.corruption.corrupted import STEP, Corrupted, rounding, subset
    from mispair.pairs.corruption.corruption import choose_pairs, draw_neighbours
    from mispair.pairs.corruption.draws import streams
    from mispair.pairs.neighbours.similar_captions import read_similar

    if len(sources.similar) != 1:
        raise UserError(
            "corrupt_captions: the scheme similar needs the table of most similar captions that "
            "find_similar_captions writes; give one with --similar."
        )
    chosen = np.sort(choose_pairs(np.arange(len(pairs.caption_ids)), rate, subset(seed)))
    original = pairs.caption_ids[chosen]
    drawn, similarity = draw_neighbours(
        read_similar(sources.similar[0]),
        original,
        pairs.alternatives[chosen],
        streams(pairs.keys(chosen), seed, STEP, "similar"),
    )
    given = pairs.caption_ids.copy()
    given[chosen] = drawn
    swapped = np.zeros(len(given), bool)
    swapped[chosen] = drawn != original
    alone = int((drawn == original).sum())
    rounded = rounding(len(chosen), len(given), rate)
    note = (
        f"{alone:,} of the {len(chosen):,} chosen pairs keep their caption, because no other "
        "caption is similar to it."
    )
    mean = float(np.nanmean(similarity)) if alone < len(chosen) else float("nan")
    shares = {"neighbour_similarity": repr(mean), "without_neighbours": str(alone)}
    return Corrupted(given, swapped, shares, f"{note if alone else ''} {rounded}".strip())
