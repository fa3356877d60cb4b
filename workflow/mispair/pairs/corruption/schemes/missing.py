"""Features that a caption names are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mispair.pairs.corruption.scheme import Scheme

if TYPE_CHECKING:
    from mispair.pairs.captions.caption_texts import CaptionedPairs
    from mispair.pairs.corruption.corrupted import Corrupted, Sources

SCHEME = Scheme(
    effect="leaves out a feature that a caption names (needs ground-truth features)",
    rate="the share of named features (C_s)",
    reads=frozenset({"truth"}),
    writes=True,
)


def apply(pairs: CaptionedPairs, rate: float, seed: int, sources: Sources) -> Corrupted:
    """Leave out each feature that a caption names with the probability `rate`."""
    from functools import partial

    from mispair.pairs.corruption.rewording import reword, reword_features
    from mispair.pairs.scenes.scene_captions import FEATURES

    return reword(
        pairs, "missing", seed, sources,
        partial(reword_features, rate=rate, partners=dict.fromkeys(FEATURES)),
        share="features_changed_share", check_features=True,
    )  # fmt: skip
