"""Put the new captions of all groups into one table, and their distinct texts into another."""

import logging
from pathlib import Path

from mispair.core.settings import Settings

log = logging.getLogger(__name__)


def run(settings: Settings, *, parts: list[Path], recaptions: Path, texts: Path) -> None:
    """Write the captions of all pairs with their identities, and each distinct text once.

    `parts` are the tables of recaption_pairs, for each group or for the whole corpus. `recaptions`
    gets ``key``, ``caption_id`` (null without a caption), ``caption`` and ``reason``, sorted by
    key; `texts` gets ``caption_id`` and ``caption``, sorted.
    """
    import pandas as pd

    from mispair.core import files
    from mispair.pairs.index.identities import caption_identities, hexadecimal
    from mispair.repair.captioners.faults import Caption, refuse_all_unusable

    tables, origins = zip(*map(files.read_parquet, parts), strict=True)
    table = pd.concat(tables).sort_values("key", kind="stable", ignore_index=True)
    if table["key"].duplicated().any():
        twice = table.loc[table["key"].duplicated(), "key"].iloc[0]
        raise files.UserError(
            f"gather_recaptions: the pair {twice!r} has captions in two of {len(parts)} files. "
            "Delete results/repair and run again."
        )
    usable = table["reason"].isna()
    if not usable.any():
        reasons_of_all = [Caption("", str(reason)) for reason in table["reason"]]
        refuse_all_unusable(reasons_of_all, origins[0].get("captioner", ""))
    identities = hexadecimal(caption_identities(table.loc[usable, "caption"])).to_pylist()
    ids = pd.Series(None, index=table.index, dtype=object)
    ids[usable] = identities
    table.insert(1, "caption_id", ids)
    files.write_parquet(recaptions, table, origins[0])
    distinct = table.loc[usable, ["caption_id", "caption"]].drop_duplicates("caption_id")
    files.write_parquet(texts, distinct.sort_values("caption_id", ignore_index=True), origins[0])
    reasons = table["reason"].value_counts().to_dict()
    log.info("%d captions, %d distinct; without: %s", usable.sum(), len(distinct), reasons)
