"""Pair a share of the images with other captions, or reword captions."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)

Scheme = Literal["random", "similar", "similar-swap", "spurious", "missing", "drop"]


class Settings(settings.Settings):
    schemes: list[Scheme] = settings.sweep(
        ["random", "similar"],
        min_length=1,
        description=(
            "How captions are corrupted: random swaps those of a random subset among themselves; "
            "similar gives each of that subset one of the most similar other captions of "
            "find_similar_captions, so that some captions are used often and others by no pair; "
            "similar-swap exchanges captions between similar pairs until the share is swapped, as "
            "the paper's public code does (TF-IDF of words and pairs of words, at most 5,000 "
            "terms in at least two captions and at most 95 % of them), so that each caption is "
            "used as often as before, for at most 200,000 pairs; "
            "spurious replaces a feature that a caption names by another one of its kind and "
            "missing leaves it out (both need a corpus with ground-truth features); drop leaves "
            "out content words."
        ),
    )
    rates: list[Annotated[float, Field(ge=0, le=1)]] = settings.sweep(
        [0.0, 0.1, 0.3, 0.5, 0.8],
        min_length=1,
        description=(
            "Rates of corruption, 0 to 1. For random, similar and similar-swap the shuffle "
            "probability C_m: the share of pairs that get another caption. For spurious "
            "and missing the probability C_s of each named feature; for drop that of each content "
            "word."
        ),
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
    from mispair.pairs.corruption.corruption_schemes import Sources
    from mispair.pairs.corruption.pairing import draw_pairing

    pairs = read_captioned_pairs(corpus, settings.seed)
    sources = Sources({path.stem: path for path in index}, similar, truth)
    table, texts, metadata = draw_pairing(pairs, scheme, rate, settings.seed, draws, sources)
    files.write_parquet(captions, texts.to_pandas(), metadata)
    files.write_parquet(pairing, table.to_pandas(), metadata)
    log.info("%s %g: %s", scheme, rate, ", ".join(f"{k} {v}" for k, v in metadata.items() if v))
