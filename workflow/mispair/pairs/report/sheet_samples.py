"""The pairs on the contact sheet: drawn from the first shard that has kept pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from mispair.core import seeds
from mispair.pairs.index.index import caption_id
from mispair.pairs.index.reading import locations, read_encoded
from mispair.pairs.report.contact_sheet import Sample
from mispair.report.tables import main_first


def nearest_pairing(pairings: Sequence[Path], rate: float) -> tuple[Path | None, float | None]:
    """Return the pairing of the main scheme whose nominal rate is nearest, and that rate."""
    metadata = {path: pq.read_schema(path).metadata for path in pairings}
    schemes = {path: metadata[path][b"scheme"].decode() for path in pairings}
    main = next(iter(main_first(schemes.values())), None)
    rates = {p: float(metadata[p][b"nominal"]) for p in pairings if schemes[p] == main}
    chosen = min(rates, key=lambda path: abs(rates[path] - rate), default=None)
    return chosen, rates[chosen] if chosen else None


def draw_samples(
    shards: Mapping[str, Path],
    index: Sequence[Path],
    pairing: Path | None,
    captions: Sequence[Path],
    number: int,
    seed: int,
) -> list[Sample]:
    """Draw pairs of the first shard that has kept pairs, sorted by key.

    Parameters
    ----------
    shards : mapping of str to Path
        By the names that the index gives them.
    index, captions : sequence of Path
        The index of each group, and the captions that schemes wrote.
    pairing : Path or None
        Which captions the pairs have after shuffling; None for their own.
    number, seed : int
        Largest number of pairs, and the seed of the draw.
    """
    for shard in shards:
        pairs = _rows(index, "shard", [shard]).sort_values("key", ignore_index=True)
        if len(pairs):
            break
    else:
        return []
    order = seeds.generator(seed, "contact-sheet").permutation(len(pairs))
    drawn = pairs.loc[sorted(order[:number])]
    images = dict(zip(drawn["key"], read_encoded(shards[shard], locations(drawn)), strict=True))
    new = _rows([pairing], "key", drawn["key"].tolist()) if pairing else drawn.assign(swapped=False)
    new = new.set_index("key")
    given = new["caption_id"].unique().tolist()
    # Most are a pair's first caption or come from a scheme; the others are further captions.
    texts = _rows([*index, *captions], "caption_id", given)
    text_of = dict(zip(texts["caption_id"], texts["caption"], strict=True))
    for path in index if set(given) - text_of.keys() else []:
        columns = ["caption_id", "caption", "more_captions"]
        text_of |= distinct_captions(pq.read_table(path, columns=columns).to_pandas())
    new = new.assign(text=new["caption_id"].map(text_of)).loc[drawn["key"]]
    cells = (drawn["key"], drawn["caption"], new["text"], new["swapped"])
    return [
        Sample(key, images[key], caption, text, bool(swapped))
        for key, caption, text, swapped in zip(*cells, strict=True)
    ]


def _rows(paths: Iterable[Path], column: str, values: list[str]) -> pd.DataFrame:
    """Return rows of tables; filtered while reading, as an index may be larger than memory."""
    tables = [pq.read_table(path, filters=[(column, "in", values)]).to_pandas() for path in paths]
    return pd.concat(tables, ignore_index=True)


def distinct_captions(index: pd.DataFrame) -> dict[str, str]:
    """Return every text that pairs of an index have, once, by caption id and sorted by it."""
    texts = dict(zip(index["caption_id"], index["caption"], strict=True))
    for further in index["more_captions"]:
        texts.update((caption_id(text), text) for text in further)
    return dict(sorted(texts.items()))
