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
            "similar gives each of that subset one of the ten most similar other captions of "
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

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    scheme : str
        Scheme of this job.
    rate : float
        Rate of this job; at 0 nothing changes.
    draws : int
        Independent draws of what is corrupted: one for each seed of the fine-tuning.
    corpus : Path
        The kept pairs, sorted by key.
    index : list of Path
        The index of each group, for texts.
    similar : list of Path
        For the scheme similar, the most similar captions of each; else none.
    truth : list of Path
        The tables next to the shards, with the features of pictures and captions: needed for
        spurious and missing; with them, every scheme's effective rate is measured.
    pairing : Path
        Written: ``key``, ``group``, ``row``, and for draw 0 ``caption_id``, ``swapped``,
        ``text_changed``, sorted by key; for draw k these three with ``_k`` at the end.
    captions : Path
        Written: ``caption_id``, ``caption`` of texts that no pair had before, of all draws, sorted.
    """
    import json

    import numpy as np
    import pyarrow as pa

    from mispair.core import files
    from mispair.pairs.captions.caption_texts import read_captioned_pairs
    from mispair.pairs.corruption.corruption import pairing_shares
    from mispair.pairs.corruption.corruption_schemes import (
        Sources,
        corrupt,
        effective_shares,
        mean_similarity,
    )
    from mispair.pairs.corruption.swap_draws import DRAWN, column, seed_of
    from mispair.pairs.index.identities import hexadecimal

    pairs = read_captioned_pairs(corpus, settings.seed)
    sources = Sources({path.stem: path for path in index}, similar, truth)
    table, metadata = pairs.table, {"scheme": scheme}
    written: list[tuple[np.ndarray, pa.LargeStringArray]] = []
    by_draw: list[tuple[float, float]] = []
    for draw in range(draws):
        seed = seed_of(settings.seed, draw)
        done = corrupt(pairs, scheme, rate, seed, sources)
        shares, changed = pairing_shares(pairs.caption_ids, done.given, done.swapped, rate)
        by_draw.append((float(shares.swapped), float(shares.text_changed)))
        if draw == 0:
            metadata |= {
                "nominal": repr(float(shares.nominal)),
                "swapped_share": repr(float(shares.swapped)),
                "text_changed_share": repr(float(shares.text_changed)),
                "identical_text_swaps": str(shares.identical_text_swaps),
                **mean_similarity(pairs, done, sources.index, settings.seed),
                **effective_shares(pairs, done, sources.index, truth),
                **done.shares,
                "note": done.note,
            }
        columns = (hexadecimal(done.given), pa.array(done.swapped), pa.array(changed))
        for name, values in zip(DRAWN, columns, strict=True):
            table = table.append_column(column(name, draw), values)
        written.append((done.written_ids, done.written))
    swapped, texts = zip(*by_draw, strict=True)
    metadata |= {
        "draws": str(draws),
        "swapped_share_by_draw": json.dumps(swapped),
        "text_changed_share_by_draw": json.dumps(texts),
        "seed": str(settings.seed),
        "pairs_fingerprint": pairs.fingerprint,
    }
    ids, first = np.unique(np.concatenate([ids for ids, _ in written]), return_index=True)
    captions_written = pa.concat_arrays([values for _, values in written]).take(pa.array(first))
    content = {"caption_id": hexadecimal(ids), "caption": captions_written}
    files.write_parquet(captions, pa.table(content).to_pandas(), metadata)
    files.write_parquet(pairing, table.to_pandas(), metadata)
    log.info("%s %g: %s", scheme, rate, ", ".join(f"{k} {v}" for k, v in metadata.items() if v))
