"""DataComp's uids of pairs: the subset file of its resharder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from mispair.pairs.index.books import read_columns

NAME = "kept.npy"
"""Name of the subset file."""

UID = re.compile(r"[0-9a-f]{32}")
"""Form of a uid."""


def uids_of(keys: Iterable[str], index: Sequence[Path]) -> tuple[np.ndarray | None, str]:
    """Return the uids of pairs as DataComp's resharder reads them, sorted, each once.

    A pair's uid is the text ``uid`` of its JSON, which the index has; or else its key, without the
    name of a source.

    Parameters
    ----------
    keys : iterable of str
        Keys of the pairs.
    index : sequence of Path
        The index of each group; may be empty.

    Returns
    -------
    uids : (n,) array of two uint64, or None
        None if a pair has no uid.
    note : str
        A sentence for a card: that the file is there, or why it is not.

    Examples
    --------
    >>> uids_of(["000000000000000a000000000000000b"], [])[0]
    array([(10, 11)], dtype=[('f0', '<u8'), ('f1', '<u8')])
    """
    uid_of = {key: _uid(key.rpartition("/")[2]) for key in keys}
    for path in index:
        table, _ = read_columns(path, ["key", "uid"])
        for key, uid in zip(table["key"].to_pylist(), table["uid"].to_pylist(), strict=True):
            if key in uid_of and (found := _uid(uid)):
                uid_of[key] = found
    missing = [key for key, uid in uid_of.items() if uid is None]
    if missing or not uid_of:
        count = f"{len(missing):,} of {len(uid_of):,} pairs that stay have"
        return None, (
            f"`{NAME}`, the subset file of DataComp's resharder, is not written: {count} no uid "
            "(32 hexadecimal digits as `uid` of KEY.json, or as the key)."
        )
    halves = {(int(uid[:16], 16), int(uid[16:], 16)) for uid in uid_of.values() if uid}
    note = f"`{NAME}` is the subset file of DataComp's resharder: the uids of the pairs that stay."
    return np.sort(np.array([*halves], np.dtype("u8,u8"))), note


def _uid(text: str | None) -> str | None:
    lower = (text or "").strip().lower()
    return lower if UID.fullmatch(lower) else None
