"""True features of images and captions, of corpora with ground truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from mispair.core.files import UserError
from mispair.evaluation.activations import Kind
from mispair.pairs.index.books import read_columns

UNITS: dict[Kind, tuple[str, str]] = {
    "image": ("key", "image_features"),
    "text": ("caption_id", "caption_features"),
}
"""Input of each tower, and the column of the ground truth with its true features."""


def with_truth(pairs: pd.DataFrame, truth: Sequence[Path], step: str) -> pd.DataFrame:
    """Return pairs with the true features of their image and their caption, in the same order.

    Parameters
    ----------
    pairs : DataFrame
        One row for each ``key``.
    truth : sequence of Path
        Tables next to the shards.
    step : str
        Name of the step, for messages.

    Raises
    ------
    UserError
        If a pair has no true features, or there is no pair.
    """
    columns = ["key", *(column for _, column in UNITS.values())]
    tables = [read_columns(path, columns)[0].to_pandas() for path in truth]
    table = pd.concat(tables or [pd.DataFrame(columns=columns, dtype="str")])
    joined = pairs.merge(table.drop_duplicates("key"), on="key", how="left", indicator=True)
    missing = joined.loc[joined["_merge"] == "left_only", "key"].tolist()
    if missing or joined.empty:
        of = f"of {missing[0]!r} ({len(missing)} of {len(joined)} pairs)" if missing else "at all"
        raise UserError(
            f"{step}: there are no true features {of}. Give the Parquet tables next to all "
            "shards, with the columns key, image_features and caption_features, as generated "
            "scenes have them."
        )
    return joined.drop(columns="_merge")
