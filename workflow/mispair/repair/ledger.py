"""The ledger of a rule: what became of every pair, and what that repaired or harmed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mispair.core import files
from mispair.pairs.captions.caption_texts import read_pictured_features
from mispair.pairs.corruption.effective_rate import named_codes
from mispair.pairs.scenes.scene_captions import codes
from mispair.repair.rules import ACTIONS, DROPPED, FAILED, REPLACED

if TYPE_CHECKING:
    import pandas as pd

    from mispair.repair.pairings import Draw


# Features of generated pictures, and features that captions name.


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


Row = dict[str, Any]


def of_draw(
    actions: np.ndarray,
    before: Draw,
    repaired: Mapping[str, np.ndarray],
    new: pd.DataFrame,
    trusted: np.ndarray,
    known: TrueFeatures | None,
    wrong: np.ndarray | None = None,
) -> list[Row]:
    """Return the rows of `counts`, `cells`, `expected` and `features` of one draw.

    Parameters
    ----------
    actions : (n,) int array
        Action for each pair (`mispair.repair.rules`).
    before : Draw
        Captions before.
    repaired : mapping of str to (n,) array
        ``caption_id`` and ``kept`` of the repaired pairing.
    new : DataFrame
        New captions: ``caption_id`` and ``reason``.
    trusted : (n,) bool array
        Trusted pairs.
    known : TrueFeatures or None
        Features of the pictures, if they are known.
    wrong : (n,) float array, optional
        Probability that the caption before is wrong, by the audit.
    """
    reasons = new["reason"].where(new["reason"].notna(), None).tolist()
    rows = counts(actions, trusted, reasons)
    right = None if known is None else known.true_of(new["caption_id"])
    rows += cells(actions, before.right, right)
    if known is None and wrong is not None:
        rows += expected(actions, wrong, trusted)
    if known is not None:
        given = new["caption_id"].notna().to_numpy() & ~trusted
        named = known.named(repaired["caption_id"])
        rows += features(known.pictures, known.named(before.caption_ids), "raw")
        rows += features(known.pictures, known.named(new["caption_id"]), "generated", given)
        rows += features(known.pictures, named, "repaired", repaired["kept"])
    return rows


def counts(actions: np.ndarray, trusted: np.ndarray, reasons: Sequence[str | None]) -> list[Row]:
    """Count pairs by action: read = kept + replaced + dropped + failed.

    Parameters
    ----------
    actions : (n,) int array
        Action for each pair (`mispair.repair.rules`).
    trusted : (n,) bool array
        Trusted pairs, which are among those kept.
    reasons : sequence of n
        Why a pair has no usable new caption; None where it has one.

    Returns
    -------
    list of dict
        ``metric`` and ``value``; the failed ones by ``reason``, too.
    """
    rows: list[Row] = [{"metric": "read", "value": len(actions)}]
    rows += [
        {"metric": name, "value": int((actions == action).sum())}
        for action, name in enumerate(ACTIONS)
    ]
    rows.append({"metric": "kept_trusted", "value": int(trusted.sum())})
    failed = Counter(
        reasons[pair] or "no-caption" for pair in np.flatnonzero(actions == FAILED).tolist()
    )
    rows += [
        {"metric": "failed_reason", "reason": reason, "value": number}
        for reason, number in sorted(failed.items())
    ]
    return rows


def cells(
    actions: np.ndarray, right_before: np.ndarray, new_is_right: np.ndarray | None
) -> list[Row]:
    """Count pairs by the state of their captions before and after.

    If the features of the pictures are known, a caption is right or wrong. Otherwise it is the
    pair's own, which may be wrong too, or another pair's (swapped).

    Parameters
    ----------
    actions : (n,) int array
        Action for each pair.
    right_before : (n,) bool array
        Whether the old caption is the pair's own.
    new_is_right : (n,) bool array or None
        Whether the new caption is true of the image; None where that is not known.

    Returns
    -------
    list of dict
        Counts with ``before`` (right or wrong; own or swapped) and ``after`` (the same, dropped,
        or replaced where it is not known whether the new caption is right).
    """
    names = ("own", "swapped") if new_is_right is None else ("right", "wrong")
    before = np.where(right_before, *names)
    after = before.astype(object)
    replaced = actions == REPLACED
    if new_is_right is None:
        after[replaced] = "replaced"
    else:
        after[replaced] = np.where(new_is_right[replaced], *names)
    after[actions == DROPPED] = "dropped"
    table = Counter(zip(before, after, strict=True))
    return [
        {"metric": "pairs", "before": str(first), "after": str(later), "value": number}
        for (first, later), number in sorted(table.items())
    ]


def expected(actions: np.ndarray, wrong: np.ndarray, trusted: np.ndarray) -> list[Row]:
    """Return how many wrong and right captions each action has, as the audit expects.

    Parameters
    ----------
    actions : (n,) int array
        Action for each pair.
    wrong : (n,) float array
        Probability that the caption before is wrong; it is 0 for `trusted` pairs.
    trusted : (n,) bool array
        Trusted pairs.

    Returns
    -------
    list of dict
        Sums of probabilities (``expected_pairs``) with ``before`` (wrong or right) and ``after``,
        the action. Whether a new caption is right is not known.
    """
    wrong = np.where(trusted, 0.0, wrong)
    return [
        {"metric": "expected_pairs", "before": state, "after": name, "value": float(total)}
        for state, probability in (("right", 1 - wrong), ("wrong", wrong))
        for action, name in enumerate(ACTIONS)
        for total in [probability[actions == action].sum()]
    ]


def features(
    pictures: np.ndarray, named: np.ndarray, captions: str, pairs: np.ndarray | None = None
) -> list[Row]:
    """Return precision and recall of the features that captions name.

    Parameters
    ----------
    pictures, named : (n, f) bool arrays
        Features that the pictures have, and that the captions name.
    captions : str
        Which captions: raw, generated or repaired.
    pairs : (n,) bool array, optional
        Pairs that are counted; all by default.

    Returns
    -------
    list of dict
        ``precision``, the share of namings that are true of the picture, and ``recall``, the share
        of features of pictures that are named; none without a naming.
    """
    if pairs is not None:
        pictures, named = pictures[pairs], named[pairs]
    namings, present = int(named.sum()), int(pictures.sum())
    if not namings or not present:
        return []
    true = int((named & pictures).sum())
    return [
        {"metric": "precision", "captions": captions, "value": true / namings, "n": namings},
        {"metric": "recall", "captions": captions, "value": true / present, "n": present},
    ]
