"""Which pairs of a pairing each seed of an arm is trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from mispair.pairs.corruption.swap_draws import column
from mispair.towers.finetuning.batches import fewest_kept, subset
from mispair.towers.finetuning.finetuning_settings import Settings


@dataclass(frozen=True)
class TrainingPairs:
    """The pairs that each of s seeds is trained on.

    Attributes
    ----------
    table : DataFrame
        The pairing.
    chosen : list of s (n,) int arrays
        Positions of the pairs in the pairing, ascending.
    scheduled : int
        Pairs that the number of steps is taken from: those before a repair dropped some.
    """

    table: pd.DataFrame
    chosen: list[np.ndarray]
    scheduled: int

    def shares(self, name: str) -> list[float]:
        """Return for each seed the share of its pairs for which a column of the pairing is true."""
        return [
            float(self.table[column(name, draw)].iloc[rows].mean())
            for draw, rows in enumerate(self.chosen)
        ]


def training_pairs(table: pd.DataFrame, settings: Settings) -> TrainingPairs:
    """Choose the pairs of each seed: a subset of all, without those that a repair dropped.

    Raises
    ------
    ValueError
        If the repair keeps none of the pairs of a seed.
    """
    draws = range(settings.seeds)
    chosen = [subset(len(table), settings.pairs, settings.seed, draw) for draw in draws]
    scheduled = len(chosen[0])
    if column("kept", 0) in table:
        masks = [table[column("kept", draw)].to_numpy(bool) for draw in draws]
        chosen = fewest_kept(chosen, masks, settings.seed)
    return TrainingPairs(table, chosen, scheduled)
