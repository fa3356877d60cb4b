"""Decide, key by key, which samples of a shard are whole pairs."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mispair.pairs.images import UndecodableImageError, image_size
from mispair.pairs.shards import Sample, TruncatedShardError, read_samples

NO_IMAGE = "no-image"
NO_CAPTION = "no-caption"
EMPTY_CAPTION = "empty-caption"
UNDECODABLE_CAPTION = "undecodable-caption"
UNDECODABLE_IMAGE = "undecodable-image"
SCATTERED = "scattered-or-repeated-key"
DAMAGED_SHARD = "damaged-shard"


@dataclass
class ShardIndex:
    """What one shard holds: ``kept`` and ``rejected`` rows; together every key that was read."""

    kept: list[dict[str, Any]]
    rejected: list[dict[str, Any]]

    @property
    def read(self) -> int:
        """Number of samples seen."""
        return len(self.kept) + len(self.rejected)


def caption_id(caption: str) -> str:
    """Return 16 hexadecimal digits that name a caption's text, the same in every shard."""
    return hashlib.sha256(caption.encode()).hexdigest()[:16]


def index_shard(shard: Path) -> ShardIndex:
    """Read a shard and give each sample its verdict.

    Returns
    -------
    ShardIndex
        ``kept`` rows have key, shard, caption, caption_id, width, height (pixels); ``rejected``
        rows have key, shard, reason, detail. A key whose members do not stand together appears
        once for each place, each rejected: no half sample is ever taken for a whole one.
    """
    verdicts: list[dict[str, Any]] = []
    try:
        for sample in read_samples(shard):
            verdicts.append({"key": sample.key, "shard": shard.name, **_verdict(sample)})
    except TruncatedShardError as error:
        verdicts.append(
            {
                "key": error.key or "",
                "shard": shard.name,
                "reason": DAMAGED_SHARD,
                "detail": str(error),
            }
        )
    return _split(verdicts)


def _split(verdicts: Iterable[dict[str, Any]]) -> ShardIndex:
    verdicts = list(verdicts)
    places = Counter(verdict["key"] for verdict in verdicts)
    index = ShardIndex([], [])
    for verdict in verdicts:
        if places[verdict["key"]] > 1 and verdict.get("reason") != DAMAGED_SHARD:
            verdict = {
                "key": verdict["key"],
                "shard": verdict["shard"],
                "reason": SCATTERED,
                "detail": f"its members stand in {places[verdict['key']]} places",
            }
        (index.rejected if "reason" in verdict else index.kept).append(verdict)
    return index


def _verdict(sample: Sample) -> dict[str, Any]:
    if sample.image is None:
        return {"reason": NO_IMAGE, "detail": f"members: {', '.join(sorted(sample.members))}"}
    if sample.caption is None:
        return {"reason": NO_CAPTION, "detail": f"members: {', '.join(sorted(sample.members))}"}
    try:
        caption = sample.caption.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        return {"reason": UNDECODABLE_CAPTION, "detail": str(error)}
    if not caption:
        return {"reason": EMPTY_CAPTION, "detail": ""}
    try:
        width, height = image_size(sample.image)
    except UndecodableImageError as error:
        return {"reason": UNDECODABLE_IMAGE, "detail": str(error)}
    return {
        "caption": caption,
        "caption_id": caption_id(caption),
        "width": width,
        "height": height,
    }
