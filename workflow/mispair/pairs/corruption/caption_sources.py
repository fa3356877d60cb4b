"""Which pair each caption of a pairing came from."""

from __future__ import annotations

import numpy as np

from mispair.pairs.captions.caption_texts import CaptionedPairs
from mispair.pairs.corruption.corruption_schemes import Corrupted

COLUMN = "caption_source"
"""Column of a pairing, one for each draw. A corpus with one caption per pair has none."""

WRITTEN = -1
"""Source of a caption that a scheme or a captioner wrote: no pair had it."""


def caption_sources(pairs: CaptionedPairs, done: Corrupted) -> np.ndarray:
    """Return the position of the pair that each pair's caption came from, (n,) int64.

    It is the pair itself where the text did not change, and `WRITTEN` where a scheme wrote it. A
    scheme that draws captions and not pairs (``similar``) names no pair: the source is the first
    pair, by key, that has the caption among its captions.
    """
    sources = np.arange(len(done.given), dtype=np.int64)
    changed = done.given != pairs.caption_ids
    sources[changed] = WRITTEN
    moved = changed & done.swapped
    if done.source is not None:
        sources[moved] = done.source[moved]
    elif moved.any():
        captions = pairs.alternatives.ravel()
        order = np.argsort(captions, kind="stable")
        first = order[np.searchsorted(captions, done.given[moved], sorter=order)]
        sources[moved] = first // pairs.alternatives.shape[1]
    return sources
