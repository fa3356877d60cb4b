"""Towers that were trained on the pairs that they would judge, which the audit refuses.

A corpus looks clean to a model that was trained on it. `pretrain_towers` records the fingerprint of
its corpus in ``training.json``, next to the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mispair.core.files import UserError, read_json

RECORD = "training.json"

SHIPPED_SEED = 0
"""Seed of make_scenes of the corpus that the shipped towers were trained on: 20 shards of 1,000."""

OWN_SHARDS_AT_START = 1 << 26
"""Bytes of shards that are read before any job to compare fingerprints; more are read by a job."""


def refuse(towers: str) -> None:
    """Refuse towers, named by a key of the configuration or a file, that have seen the pairs."""
    raise UserError(
        f"{towers} learned from the pairs that the audit judges, and a corpus looks clean to a "
        "model that was trained on it. Audit other shards (of generated ones, another "
        "make_scenes.seed), or give towers that were trained on others: for example train on one "
        "half of the shards, then audit the other half with `towers: results/towers/trained`. Or "
        "go without the audit: neither audit in `studies`, nor `finetune_projection.weights: "
        "audit`, nor posterior in `filter_captions.rules`."
    )


def may_have_seen(record: str | None, shards: Sequence[str]) -> bool:
    """Return whether towers were trained on as many shards of the same names, by their record."""
    if record is None or not Path(record).is_file():
        return False
    _, names = _trained_on(Path(record))
    return sorted(names) == sorted(Path(shard).name for shard in shards)


def refuse_seen(records: Sequence[Path], shards: Sequence[Path]) -> None:
    """Refuse towers whose record has the fingerprint of these shards.

    Both are empty where the names of the shards already differ (`may_have_seen`).

    Raises
    ------
    UserError
        If the towers were trained on the shards.
    """
    from mispair.towers.pretraining.pretraining import corpus_fingerprint

    for record in records:
        fingerprint, _ = _trained_on(record)
        if fingerprint == corpus_fingerprint(shards):
            refuse(f"{record}: these towers")


def _trained_on(record: Path) -> tuple[str | None, list[str]]:
    """Return the fingerprint of the corpus of a training and the names of its shards."""
    content = read_json(record)
    corpus = content.get("corpus") if isinstance(content, dict) else None
    corpus = corpus if isinstance(corpus, dict) else {}
    return corpus.get("fingerprint"), [*corpus.get("shards", [])]
