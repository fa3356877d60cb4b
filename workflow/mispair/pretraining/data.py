"""Pairs of a corpus as the small towers see them: pictures, captions and true features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from mispair.core.files import UserError
from mispair.pairs.captions.caption_texts import read_texts
from mispair.pairs.index.books import read_columns
from mispair.pairs.index.identities import identities


def texts_of(
    caption_ids: Sequence[str], index: Sequence[Path], written: Path | None = None
) -> list[str]:
    """Return the captions of pairs by their identities.

    Parameters
    ----------
    caption_ids : sequence of str
        Of each pair, 16 hexadecimal digits.
    index : sequence of Path
        The index of each group.
    written : Path, optional
        Texts that a scheme of corruption wrote: ``caption_id`` and ``caption``.

    Raises
    ------
    UserError
        If a text is in none of the files.
    """
    import pyarrow as pa

    numbers = identities(pa.chunked_array([pa.array(caption_ids, pa.large_string())]))
    decoded: dict[int, str] = {}
    if written is not None:
        table, _ = read_columns(written, ["caption_id", "caption"])
        ids = identities(table["caption_id"])
        decoded = dict(zip(ids.tolist(), table["caption"].to_pylist(), strict=True))
    missing = np.array([number not in decoded for number in numbers.tolist()], bool)
    decoded |= read_texts(index, numbers[missing])
    return [decoded[number] for number in numbers.tolist()]


def true_features(keys: Sequence[str], truth: Iterable[Path], names: Sequence[str]) -> np.ndarray:
    """Return which features the pictures of pairs show, (n, len(names)) bool.

    Parameters
    ----------
    keys : sequence of str
        Keys of the pairs.
    truth : iterable of Path
        Tables next to the shards with ``key`` and ``image_features``.
    names : sequence of str
        Features, as columns.

    Raises
    ------
    UserError
        If a pair has no features there.
    """
    shown: dict[str, list[str]] = {}
    for path in truth:
        table, _ = read_columns(path, ["key", "image_features"])
        shown.update(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))
    if missing := next((key for key in keys if key not in shown), None):
        raise UserError(
            f"measure_mixing: there are no true features of the pair {missing!r}. The study needs "
            "the generated corpus: set `shards: generated`."
        )
    column = {name: number for number, name in enumerate(names)}
    codes = np.zeros((len(keys), len(names)), bool)
    for row, key in zip(codes, keys, strict=True):
        row[[column[name] for name in shown[key]]] = True
    return codes


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


def refuse_other_pairs(path: Path, pictures: Mapping[str, str], keys: str) -> None:
    """Stop where pictures are not those of a table of pairs, by the fingerprint of its keys.

    Raises
    ------
    UserError
        If they differ.
    """
    if pictures.get("pairs") != keys:
        raise UserError(f"{path}: has the pictures of other pairs. Delete it and run again.")
