"""The files that a rule reads: pairs before the repair, new captions, cosines, probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from mispair.core import files
from mispair.pairs.corruption.swap_draws import column
from mispair.repair.pairings import aligned
from mispair.repair.rules import Evidence
from mispair.repair.true_features import TrueFeatures


@dataclass(frozen=True)
class Pairs:
    """The n pairs before the repair, in several draws of the corruption.

    Attributes
    ----------
    table : DataFrame
        Their pairing.
    metadata : dict of str to str
        Of the pairing.
    original : Series
        The pairs' own captions.
    trusted : (n,) bool array
        Trusted pairs.
    features : TrueFeatures or None
        Features of the pictures and of captions; None where those of the pictures are not known.
    """

    table: pd.DataFrame
    metadata: dict[str, str]
    original: pd.Series
    trusted: np.ndarray
    features: TrueFeatures | None


def read_pairs(
    pairing: Path, original: Path, trusted: Path, truth: Sequence[Path], captions: Sequence[Path]
) -> Pairs:
    """Read the pairs before the repair; parameters as of the step filter_captions."""
    table, metadata = files.read_parquet(pairing)
    own_captions = files.read_parquet(original)[0]["caption_id"]
    is_trusted = table["key"].isin(files.read_parquet(trusted)[0]["key"]).to_numpy()
    features = TrueFeatures.read(truth, captions, table["key"]) if truth else None
    return Pairs(table, metadata, own_captions, is_trusted, features)


@dataclass(frozen=True)
class RuleFiles:
    """Files that a rule decides by; a list is empty where the rule does not need it.

    Attributes
    ----------
    recaptions : sequence of Path
        New captions, the same for all draws or one file for each.
    scores : sequence of Path
        Cosines, as score_captions writes them.
    audits : sequence of Path
        Probabilities that captions are right, as weigh_pairs writes them.
    first : sequence of Path
        For the second round the repaired pairing of the first one.
    """

    recaptions: Sequence[Path]
    scores: Sequence[Path]
    audits: Sequence[Path]
    first: Sequence[Path]

    def new_captions(self, keys: pd.Series, draw: int) -> pd.DataFrame:
        """Return the new captions of the pairs in a draw; columns caption_id and reason."""
        if not self.recaptions:
            none = {"caption_id": None, "reason": "no-caption"}
            return pd.DataFrame(none, index=range(len(keys)))
        path = self.recaptions[draw % len(self.recaptions)]
        return aligned(files.read_parquet(path)[0], keys, path)

    def evidence(self, trusted: np.ndarray, new: pd.DataFrame, draw: int) -> Evidence:
        """Return the input of the rules for a draw.

        `trusted` is (n,) bool; `new` are the captions that `new_captions` returns for the draw.
        """
        old = fresh = np.full(len(trusted), np.nan)
        if self.scores:
            tensors, _ = files.read_tensors(self.scores[0])
            old, fresh = tensors["old"][draw], tensors["new"][draw]
        wrong = None
        if self.audits:
            wrong = 1 - files.read_tensors(self.audits[0])[0]["weights"][draw]
        return Evidence(trusted, new["caption_id"].notna().to_numpy(), old, fresh, wrong)

    def after_first_round(self, draw: int) -> np.ndarray | None:
        """Return the captions of the pairs after the first round; None in the first round."""
        if not self.first:
            return None
        return files.read_parquet(self.first[0])[0][column("caption_id", draw)].to_numpy(object)
