"""Write a repaired corpus as lists that other tools read; no shard is rewritten."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings
from mispair.repair.filter_settings import RuleName

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    rules: list[RuleName] = settings.sweep(
        ["factor"],
        description="Rules whose result is written, of those that filter_captions lists; [] for "
        "none.",
    )
    licence: str = Field(
        "unknown", min_length=1, description="Licence of the captions, for the dataset card."
    )


def run(
    settings: Settings,
    *,
    repaired: Path,
    ledger: Path,
    captions: list[Path],
    export: Path,
    index: list[Path] | None = None,
) -> None:
    """Write the captions of draw 0, keys that stay and go, and a dataset card with the ledger.

    `ledger` is that of the pairing `repaired`; `captions` are texts of old and new captions. The
    folder `export` gets ``captions.parquet`` (for the key ``captions`` of a configuration),
    ``kept.txt``, ``removed.txt``, ``README.md`` and for DataComp uids, which `index` has for all
    groups, ``kept.npy``.
    """
    import numpy as np
    import pandas as pd

    from mispair.core import files, metrics
    from mispair.core.files import replacing_folder
    from mispair.pairs.index.books import NAME, uids_of
    from mispair.repair.card import dataset_card
    from mispair.repair.pairings import texts_of

    table, origin = files.read_parquet(repaired)
    rows, provenance = metrics.read_metrics(ledger)
    kept = table[table["kept"].to_numpy(bool)]
    removed = table.loc[~table["kept"].to_numpy(bool), "key"]
    texts = texts_of(captions, kept["caption_id"])
    uids, subset = uids_of(kept["key"], index or [])
    of_draw = [row for row in rows if row["seed"] == 0]
    card = dataset_card(of_draw, provenance, settings.licence, subset)
    with replacing_folder(export) as folder:
        files.write_text(folder / "README.md", card)
        files.write_text(folder / "kept.txt", "".join(f"{key}\n" for key in kept["key"]))
        files.write_text(folder / "removed.txt", "".join(f"{key}\n" for key in removed))
        listed = pd.DataFrame({"key": kept["key"].to_numpy(), "caption": texts})
        files.write_parquet(folder / "captions.parquet", listed, origin)
        if uids is not None:
            np.save(folder / NAME, uids)
    log.info("%d of %d pairs are in %s", len(kept), len(table), export)
