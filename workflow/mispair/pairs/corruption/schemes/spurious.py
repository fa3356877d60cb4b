"""Features that a caption names are replaced by their spurious partners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mispair.pairs.corruption.scheme import Scheme

if TYPE_CHECKING:
    from mispair.pairs.captions.caption_texts import CaptionedPairs
    from mispair.pairs.corruption.corrupted import Corrupted, Sources

SCHEME = Scheme(
    effect="replaces a feature that a caption names by another one of its kind (needs ground-truth "
    "features)",
    rate="the share of named features (C_s)",
    reads=frozenset({"truth"}),
    writes=True,
)


def apply(pairs: CaptionedPairs, rate: float, seed: int, sources: Sources) -> Corrupted:
    """Replace each feature that a caption names with the probability `rate`."""
    from functools import partial

    from mispair.pairs.corruption.rewording import reword, reword_features
    from mispair.pairs.scenes.scene_captions import spurious_partners

    return reword(
        pairs, "spurious", seed, sources,
        partial(reword_features, rate=rate, partners=spurious_partners(seed)),
        share="features_changed_share", check_features=True,
        spared="{spared:,} of the {total:,} named features were drawn and stay, because their kind "
        "has no other value.",
    )  # fmt: skip
