"""Decide by a rule which captions are replaced and which pairs are dropped."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from mispair.core import settings
from mispair.repair.rules import ACTIONS, RULES

log = logging.getLogger(__name__)


if TYPE_CHECKING:
    RuleName = str
else:
    RuleName = Literal[tuple(RULES)]


class Settings(settings.Settings):
    rules: list[RuleName] = settings.sweep(
        ["raw", "factor", "drop", "all", "oracle"],
        min_length=1,
        description="Arms of the study. "
        + " ".join(f"{name}: {rule.effect}." for name, rule in RULES.items()),
    )
    rates: list[Annotated[float, Field(ge=0, le=1)]] | None = settings.sweep(
        None,
        min_length=1,
        description="Rates of the first scheme at which the study runs; null takes the largest. 0 "
        "is the corpus as it is, and measures what repair costs right pairs.",
    )
    measures: list[Literal["semantics", "probe"]] = settings.sweep(
        [],
        description="Measures of each arm besides overlap, zero-shot accuracy, retrieval and "
        "silhouette: semantic purity (semantics, where features are known) and linear probes.",
    )
    trains: list[Literal["projections", "towers"]] = settings.sweep(
        ["projections"],
        min_length=1,
        description="What is trained on the captions of each rule. projections: those of frozen "
        "towers (finetune_projection). towers: small towers from scratch (train_small_towers, "
        "whose seeds are the draws), where captioner and scorer come from towers trained from "
        "scratch on the raw captions; needs the generated corpus; the rules posterior and "
        "factor-untouched are left out.",
    )
    scorer: Annotated[str, settings.Located("raw|untouched|shipped|shipped-1")] = Field(
        "raw",
        description="Model of the cosines: the projections fine-tuned on the raw captions, each "
        "seed on its own draw (raw), the untouched model (untouched), or other towers: shipped, "
        "shipped-1, or a folder with a local open_clip model, which then encode the corpus too.",
    )
    factor: float = Field(
        1.2,
        gt=0,
        description="Factor of factor and of the rules based on it. It compares positive cosines: "
        "a new caption with a cosine of 0 or less replaces none, and one with a positive cosine "
        "replaces any whose cosine is 0 or less.",
    )
    trusted_quantile: float = Field(
        0.05, ge=0, le=1,
        description="The cut of the rule pooled: this quantile of the cosines of trusted pairs.",
    )  # fmt: skip
    kept_share: float = Field(
        0.3, gt=0, lt=1, description="Share of pairs that keep their captions by the rule share."
    )
    posterior: float = Field(
        0.5, gt=0, le=1,
        description="The rule posterior replaces a caption that is wrong with at least this "
        "probability; without `trusted`, the probability for an assumed share of wrong captions.",
    )  # fmt: skip
    seed: int = Field(0, ge=0, description="Seed of the rules that draw pairs at random.")


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
    audits: list[Path],
    captions: list[Path],
    truth: list[Path],
    repaired: Path,
    ledger: Path,
) -> None:
    """Write the repaired pairing of every draw, and the ledger.

    `pairing` is that of the scheme at its `rate`, and `original` one without corruption. `trusted`
    pairs keep their captions. `recaptions`, `scores` and `audits` are those of
    `mispair.repair.evidence.RuleFiles`. `captions` are texts of old and new captions, for
    the features that they name. `truth` are tables with the features of the pictures, if they are
    known. `repaired` gets a column ``kept`` for each draw, and `ledger` metrics by draw (``seed``)
    and, in its metadata, how well scorer and captioner do (`RuleFiles.power`,
    `RuleFiles.held_out`), what the audit knows of the share of wrong captions
    (`RuleFiles.known_share`), and examples of old and new captions.
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
    inputs = RuleFiles(recaptions, scores, audits)
    table, rows = repaired_pairing(rule, pairs, inputs, settings)
    metadata = metadata_of(pairs.metadata, rate, rule)
    files.write_parquet(repaired, table, metadata)
    numbers = settings.model_dump(include={*RULES[rule].numbers}, mode="json")
    power = inputs.power()
    shown = examples(table, pairs, inputs, captions)
    found = {**power, **inputs.held_out(), **inputs.known_share(), "examples": shown}
    metrics.write_metrics(ledger, rows, {**metadata, **numbers, **found})
    if weak := power.get("no_better_than_chance"):
        log.warning("%s: no better than chance: %s", rule, ", ".join(weak))
    of_draw = {row["metric"]: row["value"] for row in rows if row["seed"] == 0}
    counts = ", ".join(f"{name} {of_draw[name]}" for name in ("read", *ACTIONS))
    log.info("%s: %s", rule, counts)
