"""Captions of a random subset of the pairs are permuted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mispair.core.files import UserError
from mispair.pairs.corruption.scheme import Scheme

if TYPE_CHECKING:
    from mispair.pairs.captions.caption_texts import CaptionedPairs
    from mispair.pairs.corruption.corrupted import Corrupted, Sources

SCHEME = Scheme(
    effect="swaps the captions of a random subset of the pairs among themselves",
    rate="the share of pairs that get another caption (C_m)",
    audited="random",
)


def apply(pairs: CaptionedPairs, rate: float, seed: int, sources: Sources) -> Corrupted:
    """Permute captions so that every chosen pair gets another text where that is possible."""
    from mispair.pairs.captions.caption_texts import read_texts
    from mispair.pairs.corruption.corrupted import Corrupted, rounding, subset
    from mispair.pairs.corruption.corruption import shuffle_captions

    original = pairs.caption_ids
    positions = np.arange(len(original))  # pairs are sorted by key
    try:
        source = shuffle_captions(positions, rate, subset(seed), original)
    except ValueError as error:
        raise UserError(f"corrupt_captions: {error}.") from error
    given, swapped = original[source], source != positions
    rounded = rounding(int(swapped.sum()), len(original), rate)
    if not (same := int((given[swapped] == original[swapped]).sum())):
        return Corrupted(given, swapped, note=rounded, source=source)
    captions, times = np.unique(original[swapped], return_counts=True)
    commonest = captions[[times.argmax()]]
    text = read_texts(sources.index.values(), commonest)[int(commonest[0])]
    note = (
        f"{same:,} of the {swapped.sum():,} chosen pairs got another pair's caption with their own "
        f"text, because {times.max():,} of them, more than half, have the caption {text[:80]!r}."
    )
    return Corrupted(given, swapped, note=f"{note} {rounded}".strip(), source=source)
