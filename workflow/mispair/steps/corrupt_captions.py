"""Pair a random share of the images with the captions of other images."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mispair import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    scheme: Literal["random"] = Field(
        "random", description="How captions are swapped: random permutes those of a random subset."
    )
    rates: list[Annotated[float, Field(ge=0, le=1)]] = settings.sweep(
        [0.0, 0.1, 0.3, 0.5, 0.8],
        min_length=1,
        description="Shuffle probabilities C_m: share of pairs whose captions are swapped, 0 to 1.",
    )
    seed: int = Field(0, ge=0, description="Seed of the draw of pairs and of their permutation.")


def run(settings: Settings, *, rate: float, index: list[Path], pairing: Path) -> None:
    """Write which caption each key is paired with at one rate.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    rate : float
        Shuffle probability C_m of this job.
    index : list of Path
        Index tables with columns ``key`` and ``caption_id``, in any order.
    pairing : Path
        Written: ``key``, ``caption_id``, ``swapped``, ``text_changed``, sorted by key.
    """
    import pandas as pd

    from mispair import files, provenance, seeds
    from mispair.pairs.corruption import pairing_shares, shuffle_captions

    tables = [files.read_parquet(path)[0][["key", "caption_id"]] for path in index]
    pairs = pd.concat(tables, ignore_index=True).sort_values("key", ignore_index=True)
    repeated = pairs.loc[pairs["key"].duplicated(), "key"]
    if len(repeated):
        raise files.UserError(
            f"corrupt_captions: {len(repeated)} keys stand in more than one shard, for example "
            f"{repeated.iloc[0]!r}. Captions travel by key, so keys must be unique over all shards."
        )
    keys, captions = pairs["key"].to_numpy(), pairs["caption_id"].to_numpy()
    draw = seeds.generator(settings.seed, "corrupt-captions", settings.scheme)
    try:
        source = shuffle_captions(keys, rate, draw)
    except ValueError as error:
        raise files.UserError(f"corrupt_captions: {error}.") from error
    shares, swapped, text_changed = pairing_shares(captions, source, rate)
    table = pd.DataFrame(
        {
            "key": keys,
            "caption_id": captions[source],
            "swapped": swapped,
            "text_changed": text_changed,
        }
    )
    metadata = {
        "scheme": settings.scheme,
        "nominal": repr(float(shares.nominal)),
        "swapped_share": repr(float(shares.swapped)),
        "text_changed_share": repr(float(shares.text_changed)),
        "seed": str(settings.seed),
        "pairs_fingerprint": provenance.fingerprint(str(part) for part in [*keys, *captions]),
    }
    files.write_parquet(pairing, table, metadata)
    log.info("C_m %g: %s", rate, shares)
