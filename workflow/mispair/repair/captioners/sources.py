"""Inputs of captioners: pairs of the corpus, trusted captions, cached features, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from mispair.core import files
from mispair.core.files import UserError
from mispair.pairs.captions.table_files import KEY
from mispair.pairs.captions.user_tables import TableColumns, read_rows
from mispair.pairs.index.books import read_columns
from mispair.repair.captioners.faults import Caption, Draft
from mispair.repair.captioners.pictures import first_usable
from mispair.towers.features import FeaturePart, parts_of_towers

if TYPE_CHECKING:
    from mispair.repair.captioners.recaption_settings import Settings

SHOWN = 3


def read_pairs(corpus: Path) -> pd.DataFrame:
    """Return the kept pairs by key: ``key``, ``group``, ``row``.

    Raises
    ------
    UserError
        If the file is no corpus.
    """
    table, _ = read_columns(corpus, ["key", "group", "row"])
    return table.to_pandas().sort_values("key", ignore_index=True)


def read_index(index: Sequence[Path], pairs: pd.DataFrame) -> pd.DataFrame:
    """Return those rows of an index whose pairs are kept, sorted by key.

    Raises
    ------
    UserError
        If no pair is kept.
    """
    tables = [files.read_parquet(path)[0] for path in index]
    table = pd.concat(tables, ignore_index=True)
    kept = table[table["key"].isin(pairs["key"])].sort_values("key", ignore_index=True)
    if kept.empty:
        raise UserError(
            f"recaption_pairs: {', '.join(map(str, index))} holds no pair of the corpus. Give the "
            "index of one of its groups."
        )
    return kept


def refuse_missing_shards(named: Iterable[str], given: Mapping[str, Path]) -> None:
    """Refuse an index that names a shard which is not given.

    Raises
    ------
    UserError
        Naming the first.
    """
    if missing := sorted(set(named) - given.keys()):
        raise UserError(
            f"recaption_pairs: the index names {missing[0]}, which is not among the shards given."
        )


def read_trusted_captions(trusted: Sequence[Path], corpus: Path) -> pd.DataFrame:
    """Return the captions of trusted pairs: ``key``, ``group``, ``row``, ``caption``.

    Parameters
    ----------
    trusted : sequence of Path
        One Parquet file with the columns ``key`` and ``caption``.
    corpus : Path
        The kept pairs.

    Raises
    ------
    UserError
        If there is no file, or it names no key or one that the corpus does not have.
    """
    if len(trusted) != 1:
        raise UserError(
            "recaption_pairs: captioner trained learns from pairs that are known to be right. Give "
            "one file of trusted keys, or take another captioner."
        )
    right = read_columns(trusted[0], ["key", "caption"])[0].to_pandas()
    if right.empty:
        raise UserError(
            f"recaption_pairs: {trusted[0]} names no trusted key. Give `trusted` pairs, or take a "
            "captioner that does not learn (recaption_pairs.captioner)."
        )
    pairs = read_pairs(corpus)
    unknown = right.loc[~right["key"].isin(pairs["key"]), "key"].unique()
    if len(unknown):
        shown = ", ".join(map(repr, unknown[:SHOWN]))
        raise UserError(
            f"recaption_pairs: {trusted[0]} names {len(unknown)} trusted keys of "
            f"{right['key'].nunique()} that the corpus does not have, such as {shown}. Keys are "
            "those of the column key of the corpus."
        )
    return right.merge(pairs, on="key")[["key", "group", "row", "caption"]]


class PictureFeatures:
    """Cached features of pictures, a group of shards at a time.

    Parameters
    ----------
    features, rows : sequence of Path
        Files of features, and the tables of their rows; files of captions are ignored.
    towers : str
        Fingerprint of the towers.
    """

    def __init__(self, features: Sequence[Path], rows: Sequence[Path], towers: str) -> None:
        try:
            self._parts = parts_of_towers(features, rows, towers)
        except ValueError as error:
            raise UserError(f"recaption_pairs: {error}.") from error

    def by_group(self, pairs: pd.DataFrame) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Yield each group, the places of its pairs in the table, and their features (k, d).

        Several crops of a picture are averaged.

        Raises
        ------
        UserError
            If a group has no features, or features are not those of the pairs.
        """
        for group, indices in sorted(pairs.groupby("group").indices.items()):
            name, places = str(group), np.asarray(indices)
            some = pairs.iloc[places]
            yield name, places, _features_of(name, some, self._parts.get(name))

    def of(self, pairs: pd.DataFrame) -> np.ndarray:
        """Return the features (n, d) of pairs, in their order."""
        blocks = [(places, block) for _, places, block in self.by_group(pairs)]
        features = np.empty((len(pairs), blocks[0][1].shape[1]), np.float32)
        for places, block in blocks:
            features[places] = block
        return features


def _features_of(
    group: str, pairs: pd.DataFrame, load: Callable[[], FeaturePart] | None
) -> np.ndarray:
    if load is None:
        raise UserError(
            f"recaption_pairs: there are no features of group {group}. Give those of "
            "encode_features for every group of the corpus."
        )
    rows = pairs["row"].to_numpy()
    try:
        part = load()
        images = part.images(rows, pairs["key"].to_numpy())
    except ValueError as error:
        raise UserError(f"recaption_pairs: {error}.") from error
    averaged = images[rows].astype(np.float32).mean(axis=1)
    if not np.isfinite(averaged).all():
        raise UserError(f"recaption_pairs: features in {part.name} are not finite.")
    return averaged


def read_given(settings: Settings, keys: Sequence[str], index: Sequence[Path]) -> list[Caption]:
    """Return the caption that a user's table has for each pair, by the pairs' keys.

    Of several captions of a pair, the first that is usable is taken. All pairs with the value of a
    row get its captions.

    Parameters
    ----------
    settings : Settings
        Names of the tables and their columns, and what joins them to pairs.
    keys : sequence of str
        Keys of all pairs.
    index : sequence of Path
        The index of all groups; not read if keys join.

    Raises
    ------
    UserError
        If a table cannot be read, or has a caption for none of the pairs.
    """
    value_of = dict(zip(keys, keys, strict=True))
    if settings.join != KEY:
        value_of = _values_of_pairs(settings.join_column, keys, index)
    values, example = set(value_of.values()), None
    drafts: dict[str, list[Draft]] = {}
    columns = TableColumns(
        settings.key_column, settings.caption_column, settings.join, "recaption_pairs"
    )
    for value, text in read_rows([*map(Path, settings.captioner_files())], None, columns):
        example = example or value
        if text is not None and value is not None and value in values:
            drafts.setdefault(value, []).append(Draft(text))
    if not drafts:
        has = f"such as {next(iter(value_of.values()))!r}" if value_of else "which no pair has"
        raise UserError(
            f"recaption_pairs: {settings.model} has a caption for none of the {len(keys)} pairs of "
            f"the corpus, joined by {settings.join}, {has}; the table has {example!r}. Check "
            "recaption_pairs.join and recaption_pairs.key_column."
        )
    of_pairs = (drafts.get(value_of.get(key, ""), []) for key in keys)
    return [first_usable(some, settings) for some in of_pairs]


def _values_of_pairs(column: str, keys: Sequence[str], index: Sequence[Path]) -> dict[str, str]:
    """Return the value by which each pair joins, by key, of pairs that have one."""
    kept, values = set(keys), {}
    for path in index:
        table, _ = read_columns(path, ["key", column])
        for key, value in zip(table["key"].to_pylist(), table[column].to_pylist(), strict=True):
            if key in kept and (value := (value or "").strip()):
                values[key] = value
    return values
