"""Lay out sample pairs with their captions before and after shuffling."""

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    samples: int = Field(12, ge=0, le=60, description="Pairs shown.")
    shuffle_rate: float = Field(
        0.5, ge=0, le=1, description="C_m of the captions shown; the nearest computed rate is used."
    )
    thumbnail: int = Field(96, ge=16, le=512, description="Longer side of an image, in pixels.")
    seed: int = Field(0, ge=0, description="Seed of the draw of samples.")


def run(
    settings: Settings,
    *,
    shards: list[Path],
    sources: list[str],
    index: list[Path],
    pairing: list[Path],
    captions: list[Path],
    contact_sheet: Path,
) -> None:
    """Write a piece of HTML with pictures of the first shard that has kept pairs."""
    from mispair.core import files
    from mispair.pairs.index.image_list import by_name
    from mispair.pairs.report.contact_sheet import alone, draw_samples, fragment, nearest_pairing

    chosen, rate = nearest_pairing(pairing, settings.shuffle_rate)
    named = by_name(shards, sources) if settings.samples else {}
    samples = draw_samples(named, index, chosen, captions, settings.samples, settings.seed)
    html = fragment(samples, rate, settings.thumbnail)
    files.write_text(contact_sheet, alone(html, "Sample pairs before and after shuffling"))
    log.info("%d pairs at C_m = %s", len(samples), rate)
