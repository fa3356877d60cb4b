"""The repaired pairing of a rule and its ledger, and the files that a rule reads."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mispair.audit.rate import Z_ONE_SIDED
from mispair.core import files, seeds
from mispair.core.files import UserError
from mispair.pairs.corruption.draws import column
from mispair.repair import ledger
from mispair.repair.filter_settings import Settings
from mispair.repair.ledger import TrueFeatures
from mispair.repair.pairings import aligned, repaired, spared, texts_of
from mispair.repair.rules import REPLACED, Evidence, decide

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

    def held_out(self) -> dict[str, Any]:
        """Return the test of a trained captioner, for the metadata of the ledger, if there is one.

        ``captioner`` and ``typical`` are those of `mispair.repair.captioners.held_out.HeldOut`.
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
            if known and value - Z_ONE_SIDED * error < LEAST_WINS:
                weak.append(name)
        return {**measured, "no_better_than_chance": weak}

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
    pairs : Pairs
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
    new = inputs.new_captions(table["key"], 0)
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
) -> tuple[pd.DataFrame, list[ledger.Row]]:
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
    for draw in range(int(pairs.metadata["draws"])):
        before = spared(pairs.table, pairs.original, pairs.trusted, draw)
        new = inputs.new_captions(table["key"], draw)
        given = new["caption_id"].to_numpy(object)
        evidence = inputs.evidence(pairs.trusted, new, draw)
        seed = seeds.integer(settings.seed, "filter-captions", draw)
        try:
            actions = decide(rule, evidence, settings, seed)
        except ValueError as error:
            raise UserError(f"filter_captions ({rule}): {error}.") from error
        if inputs.first:
            # Either round may replace a caption; that of the second round takes precedence.
            table_of_first, _ = files.read_parquet(inputs.first[0])
            former = table_of_first[column("caption_id", draw)].to_numpy(object)
            again = actions == REPLACED
            actions = np.where(~again & (former != before.caption_ids), REPLACED, actions)
            given = np.where(again, given, former)
            new = new.assign(caption_id=given)
        columns = repaired(before, actions, given)
        for name, values in columns.items():
            table[column(name, draw)] = values
        of_draw = ledger.of_draw(
            actions, before, columns, new, pairs.trusted, pairs.features, evidence.wrong
        )
        rows += [{"seed": draw, **row} for row in of_draw]
    return table, rows
