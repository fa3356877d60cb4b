"""Pairs of a corpus from files: pictures and captions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from mispair.core.files import UserError, read_tensors
from mispair.pairs.captions.caption_texts import read_texts
from mispair.pairs.index.books import read_columns
from mispair.pairs.index.identities import identities


def texts_of(
    caption_ids: Sequence[str], index: Sequence[Path], written: Sequence[Path] = ()
) -> list[str]:
    """Return the captions of pairs by their identities of 16 hexadecimal digits.

    Texts that are not in the index, such as those that a scheme of corruption wrote, are in the
    tables `written`: ``caption_id`` and ``caption``.

    Raises
    ------
    UserError
        If a text is in none of the files.
    """
    import pyarrow as pa

    numbers = identities(pa.chunked_array([pa.array(caption_ids, pa.large_string())]))
    decoded: dict[int, str] = {}
    for path in written:
        table, _ = read_columns(path, ["caption_id", "caption"])
        ids = identities(table["caption_id"])
        decoded |= dict(zip(ids.tolist(), table["caption"].to_pylist(), strict=True))
    missing = np.array([number not in decoded for number in numbers.tolist()], bool)
    decoded |= read_texts(index, numbers[missing])
    return [decoded[number] for number in numbers.tolist()]


def held_out_rows(pairs: int, held_out: int, draw: np.random.Generator) -> np.ndarray:
    """Return the rows of pairs that are not trained on, sorted, (held_out,) int64.

    Raises
    ------
    ValueError
        If fewer than two pairs are left to train on.
    """
    if held_out > pairs - 2:
        raise ValueError(f"{held_out} of {pairs} pairs held out leave fewer than two to train on")
    return np.sort(draw.permutation(pairs)[:held_out])


def pictures_of(path: Path, pairs: str) -> np.ndarray:
    """Read the pictures of a table of pairs, named by the fingerprint of its keys.

    Raises
    ------
    UserError
        If the file has the pictures of other pairs.
    """
    arrays, metadata = read_tensors(path)
    if metadata.get("pairs") != pairs:
        raise UserError(f"{path}: has the pictures of other pairs. Delete it and run again.")
    return arrays["pictures"]


def in_rows(pairs: pd.DataFrame, encoded: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return keys and features of a group of shards in the rows that its index gives to pictures.

    Parameters
    ----------
    pairs : DataFrame
        ``key`` and ``row`` of n kept pairs of the group.
    encoded : (n, d) float32 array
        Features of their pictures.

    Returns
    -------
    list of m str, (m, d) float32 array
        A picture that is not among the kept pairs has a row with an empty key and NaN.
    """
    places = pairs["row"].to_numpy()
    length = int(places.max(initial=-1)) + 1
    keys = np.full(length, "", object)
    features = np.full((length, encoded.shape[1]), np.nan, np.float32)
    keys[places], features[places] = pairs["key"].to_numpy(object), encoded
    return [*keys], features
