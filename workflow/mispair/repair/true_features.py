"""Features of generated pictures, and features that captions name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from mispair.core import files
from mispair.pairs.captions.caption_texts import read_pictured_features
from mispair.pairs.corruption.effective_rate import named_codes
from mispair.pairs.scenes.scene_features import codes


class TrueFeatures:
    """Features of n pictures, and those that captions name.

    Parameters
    ----------
    pictures : (n, f) bool array
        Features of each picture.
    texts : Series
        Texts by identity of the caption.
    """

    def __init__(self, pictures: np.ndarray, texts: pd.Series) -> None:
        self.pictures = pictures
        self._position = pd.Index(texts.index)
        none = np.zeros((1, pictures.shape[1]), bool)
        self._codes = np.concatenate([named_codes(texts.tolist()), none])

    @classmethod
    def read(
        cls, truth: Sequence[Path], captions: Sequence[Path], keys: pd.Series
    ) -> TrueFeatures | None:
        """Read both; None where the features of a picture are not known.

        Parameters
        ----------
        truth : sequence of Path
            Tables next to the shards.
        captions : sequence of Path
            Tables of caption_id and caption.
        keys : Series
            Keys of the pictures.
        """
        pictured = read_pictured_features(truth)
        if not pictured or not all(key in pictured for key in keys):
            return None
        tables = [files.read_parquet(path)[0][["caption_id", "caption"]] for path in captions]
        texts = pd.concat(tables).drop_duplicates("caption_id").set_index("caption_id")["caption"]
        return cls(codes([pictured[key] for key in keys]), texts)

    def named(self, ids: pd.Series | np.ndarray) -> np.ndarray:
        """Return the features that captions name, (n, f) bool; a missing caption names none."""
        # A missing caption has position -1, the row without features.
        return np.asarray(self._codes[self._position.get_indexer(pd.Index(ids))])

    def true_of(self, ids: pd.Series | np.ndarray) -> np.ndarray:
        """Return whether captions name something, and nothing that the picture lacks, (n,) bool."""
        named = self.named(ids)
        return np.asarray(named.any(axis=1) & ~(named & ~self.pictures).any(axis=1))
