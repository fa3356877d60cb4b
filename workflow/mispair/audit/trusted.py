"""The user's file of keys whose captions are known to be right."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mispair.core.files import UserError
from mispair.core.metrics import Row
from mispair.pairs.captions.user_files import (
    SHOWN,
    TRUSTED,
    as_in_corpus,
    forms_of,
    read_keys,
    refuse_unknown,
)
from mispair.pairs.index.books import read_columns

log = logging.getLogger(__name__)


def read_trusted(
    paths: Sequence[Path], keys: Any, left_out: Sequence[Path] | None = None
) -> np.ndarray:
    """Return which keys of the corpus are trusted, (n,) bool; none without a file.

    Keys of pairs that were rejected or excluded are left out, and so are a few unknown ones; both
    are counted in the log. Of a key in another form see `as_in_corpus`.

    Parameters
    ----------
    paths : sequence of Path
        None, or one file, as `mispair.pairs.captions.user_files.read_keys` reads it.
    keys : (n,) pyarrow array
        Keys of the corpus.
    left_out : sequence of Path, optional
        Tables with the ``key`` of samples that were rejected or excluded.

    Raises
    ------
    UserError
        If the file cannot be read or is empty, `refuse_unknown` refuses its unknown keys, or none
        is that of a pair.
    """
    if not paths:
        return np.zeros(len(keys), bool)
    (path,) = paths
    named, missing = _named(path, keys)
    if len(missing):
        _count_missing(path, missing, len(named), left_out or ())
    return np.asarray(pc.is_in(_text(keys), value_set=named).to_numpy(zero_copy_only=False), bool)


def left_out_rows(paths: Sequence[Path], keys: Any) -> list[Row]:
    """Return how many keys of the user's file are no pairs, as a row; none without a file.

    Parameters are those of `read_trusted`.
    """
    return [{"metric": "trusted_left_out", "value": len(_named(path, keys)[1])} for path in paths]


def _named(path: Path, keys: Any) -> tuple[pa.Array, pa.Array]:
    """Return the distinct keys of a file, and those of them that are no keys of the corpus."""
    corpus, listed = _text(keys), read_keys(path, TRUSTED)
    given = pa.array(listed, pa.large_string())
    absent = given.filter(pc.invert(pc.is_in(given, value_set=corpus))).to_pylist()
    forms = pa.array([form for key in absent for form in forms_of(key)], pa.large_string())
    similar = pc.or_(pc.invert(pc.string_is_ascii(corpus)), pc.is_in(corpus, value_set=forms))
    known_as = as_in_corpus(absent, corpus.filter(similar).to_pylist())
    named = pc.unique(pa.array([known_as.get(key, key) for key in listed], pa.large_string()))
    return named, named.filter(pc.invert(pc.is_in(named, value_set=corpus)))


def _count_missing(path: Path, missing: pa.Array, named: int, left_out: Sequence[Path]) -> None:
    """Log how many keys of the list have no pair, or refuse the list for them."""
    unknown = missing
    for table in left_out:
        known = _text(read_columns(table, ["key"])[0]["key"])
        unknown = unknown.filter(pc.invert(pc.is_in(unknown, value_set=known)))
    rejected = len(missing) - len(unknown)
    shown = ", ".join(repr(key) for key in unknown[:SHOWN].to_pylist())
    refuse_unknown(TRUSTED, path, named, unknown.to_pylist())
    if len(missing) == named:
        raise UserError(
            f"{TRUSTED}: all {named} pairs that {path} names were rejected or excluded. Name pairs "
            "of results/pairs/CORPUS/corpus.parquet."
        )
    log.warning(
        "trusted: %s: of %d keys, %d are left out: %d of pairs that were rejected or excluded, "
        "%d that the corpus does not have%s",
        path, named, len(missing), rejected, len(unknown), f" ({shown})" * bool(shown),
    )  # fmt: skip


def _text(keys: Any) -> pa.Array:
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    return keys.cast(pa.large_string())
