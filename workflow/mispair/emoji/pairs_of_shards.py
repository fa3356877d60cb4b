"""Pairs of a folder of shards, by the rules of a study's corpus, to train projections on."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np

from mispair.core import files
from mispair.pairs.captions.user_tables import Columns, read_rows
from mispair.pairs.index.faults import Fault
from mispair.pairs.index.index import index_shard
from mispair.pairs.index.policy import Policy

log = logging.getLogger(__name__)


class Pictures(Sequence[bytes]):
    """Encoded pictures, each read from its shard when it is used.

    Parameters
    ----------
    places : sequence of (Path, int, int)
        Shard, offset and number of bytes of each picture.
    """

    def __init__(self, places: Sequence[tuple[Path, int, int]]) -> None:
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, number: int) -> bytes: ...

    @overload
    def __getitem__(self, number: slice) -> Pictures: ...

    def __getitem__(self, number: int | slice) -> bytes | Pictures:
        if isinstance(number, slice):
            return Pictures(self._places[number])
        shard, offset, size = self._places[number]
        with shard.open("rb") as opened:
            opened.seek(offset)
            return opened.read(size)


class Pairs(NamedTuple):
    """Pictures, encoded, and their captions, in the order of the shards."""

    pictures: Sequence[bytes]
    captions: list[str]
    shards: list[Path]


def read_pairs(
    folder: Path,
    captions: Path | None = None,
    trusted: Callable[[list[str]], np.ndarray] | None = None,
) -> Pairs:
    """Return the whole pairs of the shards of a folder; others are counted in the log.

    Parameters
    ----------
    folder : Path
        Folder of shards.
    captions : Path, optional
        A table with the columns ``key`` and ``caption``, which replaces the captions of the shards.
    trusted : callable, optional
        From all keys to those that are left out, bool.

    Raises
    ------
    UserError
        If there is no shard or no pair, or a shard is damaged.
    """
    shards = sorted(folder.glob("*.tar"))
    if not shards:
        raise files.UserError(
            f"{folder}: holds no shard, KEY.tar. Give a folder of shards (`mispair pack-emoji` "
            "writes those of the emoji)."
        )
    table: dict[str, list[str]] = {}
    for key, caption in read_rows([captions], None, Columns()) if captions else ():
        if key is not None and caption is not None:
            table.setdefault(key, []).append(caption)
    policy = Policy(table="replace" if captions else "none")
    rows, rejected = [], Counter[str]()
    for shard in shards:
        found = index_shard(shard, policy, (lambda keys: _some_of(table, keys)) if table else None)
        for row in found.rejected:
            if row["reason"] == Fault.DAMAGED_SHARD:
                raise files.UserError(f"{shard}: is damaged ({row['detail']}). Fetch it again.")
            rejected[str(row["reason"])] += 1
        rows += [(shard, row) for row in found.kept]
    if rejected:
        log.warning("%s: samples that are no pairs: %s", folder, dict(rejected.most_common()))
    if trusted is not None:
        left_out = trusted([row["key"] for _, row in rows])
        rows = [each for each, is_left_out in zip(rows, left_out, strict=True) if not is_left_out]
        log.info("%s: trusted pairs that are left out: %d", folder, int(left_out.sum()))
    places = [(shard, row["image_offset"], row["image_bytes"]) for shard, row in rows]
    return Pairs(Pictures(places), [row["caption"] for _, row in rows], shards)


def _some_of(table: dict[str, list[str]], keys: list[str]) -> dict[str, list[str]]:
    return {key: table[key] for key in keys if key in table}
