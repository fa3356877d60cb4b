"""The truth of generated pictures plays the person, for a demonstration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from mispair.pairs.captions.caption_texts import read_pictured_features
from mispair.pairs.corruption.effective_rate import named_codes
from mispair.pairs.scenes.scene_captions import codes
from mispair.review.labels import DRAWN, RIGHT, WRONG


def by_truth(sample: pd.DataFrame, truth: Sequence[Path]) -> dict[str, tuple[str, str]]:
    """Return labels that the known features of generated pictures give, for a demonstration.

    A caption is right that names something, and nothing that the picture lacks.
    """
    pictured = read_pictured_features(truth)
    shown, named = (
        codes([pictured[key] for key in sample["key"]]),
        named_codes(sample["caption"].tolist()),
    )
    right = named.any(axis=1) & ~(named & ~shown).any(axis=1)
    return {
        key: (RIGHT if fits else WRONG, DRAWN)
        for key, fits in zip(sample["key"], right, strict=True)
    }
