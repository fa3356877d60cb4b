"""Pair a share of the images with other captions, or reword captions."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from mispair.core import settings
from mispair.pairs.corruption.scheme import meaning_of_rates, schemes

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    SchemeName = str
else:
    SchemeName = Literal[tuple(schemes())]


class Settings(settings.Settings):
    schemes: list[SchemeName] = settings.sweep(
        ["random", "similar"],
        min_length=1,
        description=(
            "How captions are corrupted: "
            f"{'; '.join(f'{name} {scheme.effect}' for name, scheme in schemes().items())}."
        ),
    )
    rates: list[Annotated[float, Field(ge=0, le=1)]] = settings.sweep(
        [0.0, 0.1, 0.3, 0.5, 0.8],
        min_length=1,
        description=f"Rates of corruption, 0 to 1: {meaning_of_rates()}.",
    )
    seed: int = Field(0, ge=0, description="Seed of all draws; same seed, same pairs and texts.")


def run(
    settings: Settings,
    *,
    scheme: str,
    rate: float,
    draws: int,
    corpus: Path,
    index: list[Path],
    similar: list[Path],
    truth: list[Path],
    pairing: Path,
    captions: Path,
) -> None:
    """Write which caption each key is paired with under one scheme at one rate.

    `similar` is the table of most similar captions, for the scheme similar only. `truth` are the
    tables next to the shards, with the features of pictures and captions: needed for spurious and
    missing; with them, every scheme's effective rate is measured. The two tables written are those
    of `draw_pairing`, with one draw for each seed of the fine-tuning.
    """
    from mispair.core import files
    from mispair.pairs.captions.caption_texts import read_captioned_pairs
    from mispair.pairs.corruption.corrupted import Sources
    from mispair.pairs.corruption.pairing import draw_pairing

    pairs = read_captioned_pairs(corpus, settings.seed)
    sources = Sources({path.stem: path for path in index}, similar, truth)
    table, texts, metadata = draw_pairing(pairs, scheme, rate, settings.seed, draws, sources)
    files.write_parquet(captions, texts.to_pandas(), metadata)
    files.write_parquet(pairing, table.to_pandas(), metadata)
    log.info("%s %g: %s", scheme, rate, ", ".join(f"{k} {v}" for k, v in metadata.items() if v))
