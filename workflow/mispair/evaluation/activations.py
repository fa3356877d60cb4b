"""Activations of neurons, inputs with the largest ones, and the true features of inputs.

The activation of neuron j is coordinate j of a tower's embedding: the pre-projection feature times
the projection, at length one. Features are read block by block, and only the requested rows, so a
corpus of any size needs the memory of one block.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from mispair.core import files
from mispair.core.files import UserError
from mispair.evaluation.classification import embed
from mispair.pairs.index.books import read_columns

BLOCK = 4096
"""Rows of features that are held at a time."""

SPARSE = 8
"""Rows are read one by one if fewer than one in this many is needed: pages between stay on disk."""

Kind = Literal["image", "text"]
"""Kind of input of a row of features, and the tower that computed it."""

Block = tuple[list[str], np.ndarray]
"""Names of m images or captions, and their pre-projection features (m, d)."""


def strongest(
    blocks: Iterable[Block], projection: np.ndarray, neurons: Sequence[int], k: int
) -> list[list[tuple[str, float]]]:
    """Return the names of the inputs that activate each of some neurons most.

    Parameters
    ----------
    blocks : iterable of Block
        Names and features, no name twice.
    projection : (d, e) array
        Columns are neurons.
    neurons : sequence of int
        Which columns.
    k : int
        How many names for each neuron.

    Returns
    -------
    list of list of (str, float)
        For each neuron at most k names with their activations, the largest first and equal ones
        by name. The result does not depend on the order of the blocks.

    Raises
    ------
    ValueError
        If widths do not match, or a feature is not finite.
    """
    best: list[list[tuple[float, str]]] = [[] for _ in neurons]
    if not k:
        return [[] for _ in neurons]
    for names, features in blocks:
        columns = embed(features, projection).T
        last = min(k, len(names))
        for position, neuron in enumerate(neurons):
            values = columns[neuron]
            # All values equal to the k-th largest stay, so that names decide between them.
            rows = np.flatnonzero(values >= np.partition(values, -last)[-last])
            ranked = [(-float(values[row]), names[row]) for row in rows]
            best[position] = sorted(best[position] + ranked)[:k]
    return [[(name, -negative) for negative, name in ranked] for ranked in best]


def feature_blocks(
    features: Iterable[Path],
    feature_rows: Iterable[Path],
    kind: Kind,
    selected: Collection[str],
    towers: str | None = None,
    every: bool = True,
) -> Iterator[Block]:
    """Read the features of some images or captions from the parts in which they are cached.

    Parameters
    ----------
    features, feature_rows : iterable of Path
        The parts, ``NAME.safetensors``, and the tables of their rows, ``NAME.parquet``. A part may
        hold images, captions or both; parts are read in the order of their names.
    kind : {"image", "text"}
        Kind of features to read. The first crop is read if an image has several.
    selected : collection of str
        Keys of images or ids of captions.
    towers : str, optional
        Fingerprint of the towers, which every part must have.
    every : bool
        Whether all selected features must exist.

    Yields
    ------
    Block
        At most `BLOCK` rows. Each name occurs once, from the first part that holds it.

    Raises
    ------
    UserError
        If a part has no table or other towers, a feature is not finite, or a name is in no part
        although `every` one is wanted.
    """
    import safetensors

    tables = {path.stem: path for path in feature_rows}
    missing = set(selected)
    for path in sorted(features, key=lambda path: path.name):
        if path.stem not in tables:
            raise files.UserError(
                f"{path}: its table of rows, {path.stem}.parquet, is not among those given."
            )
        table, metadata = files.read_parquet(tables[path.stem])
        source = metadata.get("towers")
        if towers is not None and source is not None and source != towers:
            raise files.UserError(
                f"{path}: is of other towers ({source}) than the projections ({towers}). Delete "
                "the file that is out of date, and run again."
            )
        table = table[(table["kind"] == kind) & table["id"].isin(missing)]
        table = table.drop_duplicates("id").sort_values("row")
        missing.difference_update(table["id"])
        if table.empty:
            continue
        names, rows = table["id"].tolist(), table["row"].to_numpy()
        try:
            with safetensors.safe_open(path, framework="numpy") as opened:
                stored = opened.get_slice(f"{kind}_features")
                for start in range(0, len(rows), BLOCK):
                    part = slice(start, start + BLOCK)
                    block = _read(stored, rows[part])
                    _refuse_what_is_not_finite(block, names[part], path)
                    yield names[part], block
        except (OSError, safetensors.SafetensorError) as error:
            raise files.UserError(
                f"{path}: cannot be read as safetensors ({error}). Delete it and run again."
            ) from error
    if every and missing:
        unit = "image" if kind == "image" else "caption"
        raise files.UserError(
            f"no part of the features holds {unit} {min(missing)!r} ({len(missing)} of "
            f"{len(selected)} are missing). Run encode_features and encode_captions again."
        )


def _read(stored: object, rows: np.ndarray) -> np.ndarray:
    """Return rows, given in ascending order, of an array on disk."""
    first, last = int(rows[0]), int(rows[-1])
    if last - first < SPARSE * len(rows):
        return np.asarray(stored[first : last + 1])[rows - first]  # type: ignore[index]
    return np.concatenate([stored[row : row + 1] for row in rows.tolist()])  # type: ignore[index]


def _refuse_what_is_not_finite(block: np.ndarray, names: list[str], path: Path) -> None:
    finite = np.isfinite(block).all(axis=1)
    if not finite.all():
        raise files.UserError(
            f"{path}: the feature of {names[int(np.argmin(finite))]!r} is not finite. Delete the "
            "file and run again."
        )


# True features of images and captions, of corpora with ground truth.

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


# Pairs of a corpus that are drawn by key, from some of its groups.


def drawn_pairs(
    corpus: Path, index: Sequence[Path], columns: Sequence[str], most: int, *name: object
) -> pd.DataFrame:
    """Return what the index records of some pairs of the corpus, drawn by key and sorted by it.

    Parameters
    ----------
    corpus : Path
        Table of all pairs that the corpus keeps: ``key``, ``group`` and ``row``.
    index : sequence of Path
        The index of some groups, ``GROUP.parquet``; only their pairs are drawn.
    columns : sequence of str
        Columns of the index, with ``key``.
    most : int
        Largest number of pairs.
    *name
        Purpose of the draw, such as a seed and a step; other names draw other pairs.
    """
    import numpy as np
    import pyarrow.parquet as pq

    from mispair.pairs.corruption.draws import streams
    from mispair.pairs.index.books import read_columns

    paths = {path.stem: path for path in index}
    tables = [pd.DataFrame(columns=[*columns])]
    if paths:
        # Filtered while reading: a corpus may have many times the pairs of the groups given.
        given = [("group", "in", [*paths])]
        kept = pq.read_table(corpus, columns=["key", "group", "row"], filters=given).to_pandas()
        order = np.argsort(streams(kept["key"], *name), kind="stable")
        for group, rows in kept.iloc[order[:most]].groupby("group"):
            table, _ = read_columns(paths[str(group)], [*dict.fromkeys(["row", *columns])])
            chosen = table.to_pandas().set_index("row").loc[rows["row"]]
            tables.append(chosen.reset_index()[[*columns]])
    return pd.concat(tables[1:] or tables).sort_values("key", ignore_index=True)
