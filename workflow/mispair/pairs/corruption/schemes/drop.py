"""Content words are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mispair.pairs.corruption.scheme import Scheme

if TYPE_CHECKING:
    from mispair.pairs.captions.caption_texts import CaptionedPairs
    from mispair.pairs.corruption.corrupted import Corrupted, Sources

SCHEME = Scheme(
    effect="leaves out content words",
    rate="the share of content words",
    writes=True,
)


def apply(pairs: CaptionedPairs, rate: float, seed: int, sources: Sources) -> Corrupted:
    """Leave out each content word with the probability `rate`; one always stays."""
    from functools import partial

    from mispair.pairs.corruption.rewording import leave_out_words, reword

    return reword(
        pairs, "drop", seed, sources, partial(leave_out_words, rate=rate),
        share="words_dropped_share",
        spared="{spared:,} captions keep one content word, because all of theirs were drawn.",
    )  # fmt: skip
