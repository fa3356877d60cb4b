"""Read tar shards and list which image-text pairs are whole, and why the others are not."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from mispair.core import settings


class Settings(settings.Settings):
    """Settings of `index_shards`."""

    caption_from: str = Field(
        "txt",
        pattern=r"^(json:.+|[^:/\s]+)$",
        description="Member that holds the caption: its extension, or `json:FIELD` for a field of "
        "the sample's JSON.",
    )
    empty_captions: Literal["quarantine", "keep"] = Field(
        "quarantine", description="What becomes of pairs whose caption is empty."
    )
    control_characters: Literal["quarantine", "keep"] = Field(
        "quarantine",
        description="What becomes of pairs with control characters (NUL included; tab and line "
        "ends are none) in the caption.",
    )
    min_words: int = Field(0, ge=0, description="Least number of words in a caption.")
    max_words: int | None = Field(None, ge=1, description="Greatest number of words in a caption.")
    max_characters: int | None = Field(
        None, ge=1, description="Greatest number of characters in a caption."
    )
    max_image_pixels: int = Field(
        89_478_485,
        ge=1,
        description="Greatest width x height of an image, in pixels; larger ones are refused "
        "before they are decoded. The default is Pillow's warning limit.",
    )
    min_image_side: int = Field(
        1, ge=1, description="Least width and least height of an image, in pixels."
    )
    max_aspect_ratio: float = Field(
        200,
        ge=1,
        description="Greatest longer side of an image over its shorter one; others are refused "
        "before they are decoded. Resized for a tower of 224 pixels, an image at this limit has "
        "224 x 44,800 pixels.",
    )
    table_captions: Literal["replace", "augment"] = Field(
        "replace",
        description="With a caption table: its captions take the place of those in the shards, or "
        "come after them. Without one it has no effect.",
    )
    shards_per_job: int = settings.sweep(
        10, ge=1, description="Number of shards that one job reads (and later encodes)."
    )
    workers: int = settings.sweep(
        1, ge=1, description="Shards that a job reads side by side, a core each. Changes no result."
    )
    stall_seconds: float = Field(
        300,
        gt=0,
        description="A worker that gives no sign of life for so many seconds is killed; its shard "
        "is tried once more and then quarantined.",
    )

    @model_validator(mode="after")
    def _some_length_is_allowed(self) -> Settings:
        if self.max_words is not None and self.max_words < self.min_words:
            raise ValueError(f"max_words: {self.max_words} is below min_words = {self.min_words}")
        return self


def run(
    settings: Settings,
    *,
    shards: list[Path],
    sources: list[str],
    captions: list[Path],
    workers: int,
    index: Path,
    rejected: Path,
) -> None:
    """Write the kept pairs and the rejected samples of a group of shards; read = kept + rejected.

    Finished shards are kept next to `index` until all are, so that a killed job can resume.
    """
    from mispair.core.progress import Progress
    from mispair.core.provenance import code_version, fingerprint
    from mispair.core.resume import checkpoints
    from mispair.pairs.index import index_parts
    from mispair.pairs.index.policy import Policy
    from mispair.pairs.index.reading import by_name
    from mispair.pairs.shards import sources as writers

    log = logging.getLogger(__name__)
    table = captions[0] if captions else None
    policy = Policy(
        caption_from=settings.caption_from,
        empty_captions=settings.empty_captions,
        control_characters=settings.control_characters,
        min_words=settings.min_words,
        max_words=settings.max_words,
        max_characters=settings.max_characters,
        max_pixels=settings.max_image_pixels,
        min_side=settings.min_image_side,
        max_ratio=settings.max_aspect_ratio,
        table=settings.table_captions if table else "none",
    )
    folder = index.with_name(f"{index.name}.parts")
    code = code_version("index_shards")
    parts = index_parts.plan(by_name(shards, sources), folder, policy, table, code)
    with checkpoints(folder, fingerprint(code)) as states:
        with Progress("indexing", len(parts), "shards") as progress:
            lost = index_parts.read_unfinished(
                parts, policy, table, workers=workers, stall_seconds=settings.stall_seconds,
                ending=states.ending, progress=progress.reach,
            )  # fmt: skip
        counts = index_parts.total(parts, lost)
        downloads = writers.downloads([part.shard for part in parts])
        read = [part for part in parts if part not in lost]
        written = writers.compare_counts({p.shard: index_parts.count(p).samples for p in read})
        metadata = counts.metadata() | {"downloads": json.dumps(downloads, sort_keys=True)}
        metadata |= {"written": json.dumps(written, sort_keys=True)}
        index_parts.gather(parts, lost, index=index, rejected=rejected, metadata=metadata)
    log.info("%d shards: %s%s", len(parts), counts, counts.table())
