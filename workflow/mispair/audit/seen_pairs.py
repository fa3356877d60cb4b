"""Towers that were trained on the pairs that they would judge, which the audit refuses.

A corpus looks clean to a model that was trained on it. `pretrain_towers` records the fingerprint of
its corpus in ``training.json``, next to the weights; `join-towers` records each shard there.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
    """Return whether towers may have seen pairs of shards, by the names in their record.

    A record of `join-towers` has the content of each shard, so that one shard suffices. One of
    `pretrain_towers` has that of all together, so that all names must be the same.
    """
    if record is None or not Path(record).is_file():
        return False
    corpus = _trained_on(Path(record))
    names = {Path(shard).name for shard in shards}
    if digests := corpus.get("digests"):
        return not names.isdisjoint(digests)
    return sorted(corpus.get("shards", [])) == sorted(Path(shard).name for shard in shards)


def refuse_seen(records: Sequence[Path], shards: Sequence[Path]) -> None:
    """Refuse towers whose record has the fingerprint of these shards, or of one of them.

    Both are empty where the names of the shards already differ (`may_have_seen`).

    Raises
    ------
    UserError
        If the towers were trained on the shards.
    """
    from mispair.core.provenance import file_digest
    from mispair.towers.pretraining.pretraining import corpus_fingerprint

    for record in records:
        corpus = _trained_on(record)
        digests = corpus.get("digests") or {}
        seen = any(s.name in digests and file_digest(s) == digests[s.name] for s in shards)
        if seen or (not digests and corpus.get("fingerprint") == corpus_fingerprint(shards)):
            refuse(f"{record}: these towers")


def _trained_on(record: Path) -> dict[str, Any]:
    """Return what a record says about the corpus of a training; empty if nothing usable."""
    content = read_json(record)
    corpus = content.get("corpus") if isinstance(content, dict) else None
    return corpus if isinstance(corpus, dict) else {}
