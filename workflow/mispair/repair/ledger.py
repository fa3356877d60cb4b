"""The ledger of a rule: what became of every pair, and what that repaired or harmed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mispair.core import seeds
from mispair.core.files import UserError
from mispair.pairs.corruption.draws import column
from mispair.repair.evidence import PairsBefore, RuleFiles, TrueFeatures
from mispair.repair.pairings import Draw, repaired, spared, texts_of
from mispair.repair.rules import ACTIONS, DROPPED, FAILED, REPLACED, Settings, decide

Row = dict[str, Any]


def ledger_rows(
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


# The repaired pairing of a rule and its ledger, and the files that a rule reads.


EXAMPLES, ENDS, LONGEST_EXAMPLE = 12, 6, 200
"""Pairs whose old and new captions the report shows, those with the largest and with the smallest
gain of the scorer's cosine, and the letters of a caption at most."""


def examples(
    table: pd.DataFrame, pairs: PairsBefore, inputs: RuleFiles, captions: Sequence[Path]
) -> list[dict[str, str]]:
    """Return old and new captions of some pairs that a rule replaces in draw 0.

    Parameters
    ----------
    table : DataFrame
        The repaired pairing.
    pairs : PairsBefore
        Before the repair.
    inputs : RuleFiles
        With the new captions, and with their scores if the rule has them.
    captions : sequence of Path
        Texts of old and new captions.

    Returns
    -------
    list of dict
        ``key``, ``old``, ``new``, ``action``, and ``sample``: random, best and worst by the scorer.
        Of a rule that replaces none, captions that it keeps are shown.
    """
    new = inputs.new_captions(table["key"])
    before = spared(pairs.table, pairs.original, pairs.trusted, 0).caption_ids
    after = table[column("caption_id", 0)].to_numpy(object)
    has_new = new["caption_id"].notna().to_numpy()
    replaced = has_new & (after == new["caption_id"].to_numpy(object)) & (after != before)
    every = np.flatnonzero(replaced if replaced.any() else has_new & ~pairs.trusted)
    if not len(every):
        return []
    drawn = seeds.generator(0, "filter-captions", "examples").permutation(every)[:EXAMPLES]
    evidence = inputs.evidence(pairs.trusted, new, 0)
    gain = np.asarray(evidence.new - evidence.old)
    judged = every[np.isfinite(gain[every])]
    order = judged[np.argsort(-gain[judged], kind="stable")]
    half = (len(order) + 1) // 2
    samples = {
        "random": np.sort(drawn),
        "best": order[:half][:ENDS],
        "worst": order[half:][::-1][:ENDS],
    }
    chosen = np.concatenate([*samples.values()])
    sample = np.repeat([*samples], [len(rows) for rows in samples.values()]).tolist()
    old, fresh = (
        texts_of(captions, pd.Series(ids[chosen]))
        for ids in (before, new["caption_id"].to_numpy(object))
    )
    dropped = ~table[column("kept", 0)].to_numpy(bool)
    return [
        {
            "sample": name,
            "key": str(pairs.table["key"].iloc[pair]),
            "old": first[:LONGEST_EXAMPLE],
            "new": second[:LONGEST_EXAMPLE],
            "action": "replaced" if replaced[pair] else "dropped" if dropped[pair] else "kept",
        }
        for name, pair, first, second in zip(sample, chosen.tolist(), old, fresh, strict=True)
    ]


def repaired_pairing(
    rule: str, pairs: PairsBefore, inputs: RuleFiles, settings: Settings
) -> tuple[pd.DataFrame, list[Row]]:
    """Apply a rule to every draw of the corruption.

    Returns
    -------
    table : DataFrame
        ``key``, ``group`` and ``row`` of each pair, and for each draw the columns of
        `mispair.repair.pairings.repaired`.
    rows : list of dict
        Rows of the ledger, each with the number of its draw as ``seed``.

    Raises
    ------
    UserError
        If the rule lacks an input.
    """
    table, rows = pairs.table[["key", "group", "row"]].copy(), []
    new = inputs.new_captions(table["key"])
    for draw in range(int(pairs.metadata["draws"])):
        before = spared(pairs.table, pairs.original, pairs.trusted, draw)
        evidence = inputs.evidence(pairs.trusted, new, draw)
        seed = seeds.integer(settings.seed, "filter-captions", draw)
        try:
            actions = decide(rule, evidence, settings, seed)
        except ValueError as error:
            raise UserError(f"filter_captions ({rule}): {error}.") from error
        columns = repaired(before, actions, new["caption_id"].to_numpy(object))
        for name, values in columns.items():
            table[column(name, draw)] = values
        of_draw = ledger_rows(
            actions, before, columns, new, pairs.trusted, pairs.features, evidence.wrong
        )
        rows += [{"seed": draw, **row} for row in of_draw]
    return table, rows
