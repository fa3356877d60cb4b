"""Decide by a rule which captions are replaced and which pairs are dropped."""

from __future__ import annotations

import logging
from pathlib import Path

from mispair.repair.rules import ACTIONS, RULES, Settings

log = logging.getLogger(__name__)


def run(
    settings: Settings,
    *,
    rule: str,
    rate: float,
    pairing: Path,
    original: Path,
    trusted: Path,
    recaptions: list[Path],
    scores: list[Path],
    first: list[Path],
    audits: list[Path],
    captions: list[Path],
    truth: list[Path],
    repaired: Path,
    ledger: Path,
) -> None:
    """Write the repaired pairing of every draw, and the ledger.

    `pairing` is that of the scheme at its `rate`, and `original` one without corruption. `trusted`
    pairs keep their captions. `recaptions`, `scores`, `first` and `audits` are those of
    `mispair.repair.ledger.RuleFiles`. `captions` are texts of old and new captions, for
    the features that they name. `truth` are tables with the features of the pictures, if they are
    known. `repaired` gets a column ``kept`` for each draw, and `ledger` metrics by draw (``seed``)
    and, in its metadata, how well scorer and captioner do (`RuleFiles.power`, `RuleFiles.held_out`)
    and examples of old and new captions.
    """
    from mispair.core import files, metrics
    from mispair.repair.evidence import RuleFiles, read_pairs
    from mispair.repair.ledger import examples, repaired_pairing
    from mispair.repair.pairings import metadata_of

    if rule not in RULES:
        raise files.UserError(
            f"filter_captions: there is no rule {rule!r}, only {', '.join(RULES)}."
        )
    before = original if RULES[rule].own_captions else pairing
    pairs = read_pairs(before, original, trusted, truth, captions)
    inputs = RuleFiles(recaptions, scores, audits, first)
    table, rows = repaired_pairing(rule, pairs, inputs, settings)
    metadata = metadata_of(pairs.metadata, rate, rule)
    files.write_parquet(repaired, table, metadata)
    numbers = settings.model_dump(include={*RULES[rule].numbers}, mode="json")
    power = inputs.power()
    shown = examples(table, pairs, inputs, captions)
    found = {**power, **inputs.held_out(), "examples": shown}
    metrics.write_metrics(ledger, rows, {**metadata, **numbers, **found})
    if weak := power.get("no_better_than_chance"):
        log.warning("%s: no better than chance: %s", rule, ", ".join(weak))
    of_draw = {row["metric"]: row["value"] for row in rows if row["seed"] == 0}
    counts = ", ".join(f"{name} {of_draw[name]}" for name in ("read", *ACTIONS))
    log.info("%s: %s", rule, counts)
