"""What the rules decide by: cosines of old and new captions, the captions, and what is true."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mispair.audit.pairs import project
from mispair.core import files
from mispair.core.distributions import lower_limit
from mispair.pairs.captions.caption_texts import read_pictured_features
from mispair.pairs.corruption.corrupted import named_codes
from mispair.pairs.scenes.scene_captions import codes
from mispair.repair.pairings import aligned
from mispair.repair.rules import Evidence
from mispair.towers.features import PairedFeatures

BLOCK = 1 << 14
"""Pairs whose embeddings are multiplied at a time."""

COMPARED, COMPARISONS = 5000, 10
"""Pairs of `wins`, at most, and comparisons of each."""

LEAST_COMPARED = 20
"""Fewest pairs of `wins`."""


def cosines(
    features: PairedFeatures, image_projection: np.ndarray, text_projection: np.ndarray, draw: int
) -> np.ndarray:
    """Return the cosine of each image with its caption in one draw, (n,) float32.

    Parameters
    ----------
    features : PairedFeatures
        Features before the projections; of images with several crops the first is taken.
    image_projection : (d_image, e) array
        Columns are neurons.
    text_projection : (d_text, e) array
        Columns are neurons.
    draw : int
        Draw of captions.

    Raises
    ------
    ValueError
        If a feature is not finite, or an embedding has no direction.
    """
    texts = project(features.text_features, text_projection)
    rows = features.text_rows[draw]
    images = np.arange(len(rows)) if features.image_rows is None else features.image_rows[draw]
    result = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), BLOCK):
        some = slice(start, start + BLOCK)
        embedded = project(features.image_features[images[some] * features.crops], image_projection)
        result[some] = np.einsum("ne,ne->n", embedded, texts[rows[some]])
    return result


def wins(
    features: PairedFeatures,
    image_projection: np.ndarray,
    text_projection: np.ndarray,
    draw: int,
    pairs: np.ndarray,
    generator: np.random.Generator,
) -> tuple[float, float]:
    """Return how often a pair's caption fits its image better than another pair's, and the error.

    Both captions are of one kind (old or new), so their style makes no difference: 0.5 is chance.
    The standard error is over pairs. Both are NaN for fewer than 20 pairs.

    Parameters
    ----------
    features, image_projection, text_projection, draw
        As `cosines` takes them.
    pairs : (m,) int array
        Pairs that are compared with one another; a part of them is drawn if there are many.
    generator : numpy.random.Generator
        Draws pairs and their order.
    """
    pairs = generator.permutation(pairs)[:COMPARED]
    if len(pairs) < LEAST_COMPARED:
        return np.nan, np.nan
    texts = features.text_rows[draw][pairs]
    images = pairs if features.image_rows is None else features.image_rows[draw][pairs]
    pictures = project(features.image_features[images * features.crops], image_projection)
    captions = project(features.text_features[texts], text_projection)
    own = np.einsum("ne,ne->n", pictures, captions)
    won, compared = np.zeros(len(pairs)), np.zeros(len(pairs))
    for shift in range(1, COMPARISONS + 1):
        cosine = np.einsum("ne,ne->n", pictures, np.roll(captions, shift, axis=0))
        differs = np.roll(texts, shift) != texts
        won += np.where(differs, (own > cosine) + 0.5 * (own == cosine), 0)
        compared += differs
    # A caption with the same words as all that it is compared with decides nothing.
    share = np.where(compared > 0, won / np.maximum(compared, 1), 0.5)
    return float(share.mean()), float(share.std(ddof=1)) / len(pairs) ** 0.5


LEAST_WINS = 0.6
"""Below this share of comparisons a scorer or a captioner is called no better than chance.

Towers of drawn emoji win 59 % on photographs, where no reader finds their captions better than
random ones. A test against 0.5 would pass them: thousands of pairs make 52 % significant.
"""


@dataclass(frozen=True)
class PairsBefore:
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
) -> PairsBefore:
    """Read the pairs before the repair; parameters as of the step filter_captions."""
    table, metadata = files.read_parquet(pairing)
    own_captions = files.read_parquet(original)[0]["caption_id"]
    is_trusted = table["key"].isin(files.read_parquet(trusted)[0]["key"]).to_numpy()
    features = TrueFeatures.read(truth, captions, table["key"]) if truth else None
    return PairsBefore(table, metadata, own_captions, is_trusted, features)


@dataclass(frozen=True)
class RuleFiles:
    """Files that a rule decides by; a list is empty where the rule does not need it.

    Attributes
    ----------
    recaptions : sequence of Path
        New captions, in one file for all draws.
    scores : sequence of Path
        Cosines, as score_captions writes them.
    audits : sequence of Path
        Probabilities that captions are right, as weigh_pairs writes them.
    """

    recaptions: Sequence[Path]
    scores: Sequence[Path]
    audits: Sequence[Path]

    def new_captions(self, keys: pd.Series) -> pd.DataFrame:
        """Return the new captions of the pairs; columns caption_id and reason."""
        if not self.recaptions:
            none = {"caption_id": None, "reason": "no-caption"}
            return pd.DataFrame(none, index=range(len(keys)))
        (path,) = self.recaptions
        return aligned(files.read_parquet(path)[0], keys, path)

    def known_share(self) -> dict[str, Any]:
        """Return what the audit knows of the share of wrong captions, for metadata; "" without it.

        ``identified`` (interval or limit), ``trusted_excess``, and ``share`` of each draw, for
        which probabilities are computed: see `mispair.audit.probability.what_is_known`.
        """
        if not self.audits:
            return {}
        _, metadata = files.read_tensors(self.audits[0], only=())
        shares, excess = json.loads(metadata["share"]), float(metadata["trusted_excess"])
        return {"identified": metadata["identified"], "trusted_excess": excess, "share": shares}

    def held_out(self) -> dict[str, Any]:
        """Return the test of a trained captioner, for the metadata of the ledger, if there is one.

        ``captioner`` and ``typical`` are those of `mispair.repair.captioners.trained.HeldOut`.
        """
        metadata = files.read_parquet(self.recaptions[0])[1] if self.recaptions else {}
        return {"held_out": json.loads(metadata["held_out"])} if "held_out" in metadata else {}

    def power(self) -> dict[str, Any]:
        """Return how well the scorer and the captioner do, for the metadata of the ledger.

        ``scorer_wins`` is how often the captions of trusted pairs fit better than those of other
        trusted pairs, and ``captioner_wins`` the same of new captions of other pairs: means over
        draws, None where too few pairs were compared. ``no_better_than_chance`` lists those below
        `LEAST_WINS`. Empty for a rule without scores.
        """
        if not self.scores:
            return {}
        wins = files.read_tensors(self.scores[0])[0]["wins"].mean(axis=0)
        measured = {}
        weak = []
        for name, (value, error) in zip(("scorer", "captioner"), wins.tolist(), strict=True):
            known = math.isfinite(value)
            measured[f"{name}_wins"] = value if known else None
            measured[f"{name}_wins_error"] = error if known else None
            if known and lower_limit(value, error) < LEAST_WINS:
                weak.append(name)
        return {**measured, "no_better_than_chance": weak}

    def evidence(self, trusted: np.ndarray, new: pd.DataFrame, draw: int) -> Evidence:
        """Return the input of the rules for a draw.

        `trusted` is (n,) bool; `new` are the captions that `new_captions` returns.
        """
        old = fresh = np.full(len(trusted), np.nan)
        if self.scores:
            tensors, _ = files.read_tensors(self.scores[0])
            old, fresh = tensors["old"][draw], tensors["new"][draw]
        wrong = None
        if self.audits:
            wrong = 1 - files.read_tensors(self.audits[0])[0]["weights"][draw]
        return Evidence(trusted, new["caption_id"].notna().to_numpy(), old, fresh, wrong)


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
