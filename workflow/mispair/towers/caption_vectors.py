"""The text features of captions, one of each text, gathered for comparing them with one another."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from mispair.core.files import UserError
from mispair.pairs.index.identities import identities
from mispair.pairs.neighbours.similarity import unit_rows
from mispair.towers.features import read_part

_BLOCK = 8192


def parts_by_group(features: Sequence[Path], rows: Sequence[Path]) -> dict[str, tuple[Path, Path]]:
    """Return the features of each group, ``GROUP.safetensors``, with their rows, ``GROUP.parquet``.

    Raises
    ------
    UserError
        If there are none, or a group has only one of the two or is given twice.
    """
    tables = {path.stem: path for path in rows}
    parts = {path.stem: (path, tables[path.stem]) for path in features if path.stem in tables}
    if not len(parts) == len(features) == len(rows):
        odd = sorted({path.stem for path in features} ^ tables.keys()) or sorted(parts)
        raise UserError(
            f"find_similar_captions: give for each group one file of features and one of their "
            f"rows, of the same name; look at {', '.join(odd[:5])}."
        )
    if not parts:
        raise UserError(
            "find_similar_captions: measure features compares features of the captions: give them "
            "with --features and --feature-rows."
        )
    return parts


def gather_vectors(
    parts: Mapping[str, tuple[Path, Path]], captions: np.ndarray, scratch: IO[bytes]
) -> np.ndarray:
    """Collect the features of captions, of length 1, in a memory map.

    Parts are read one at a time in the order of their names. A text that several parts hold is
    taken from the first, so the order of the argument changes nothing.

    Parameters
    ----------
    parts : mapping of str to (Path, Path)
        For each group the features and the table of their rows.
    captions : (n,) uint64 array
        Identities of the captions, sorted.
    scratch : file
        Empty, open for reading and writing. It takes 4 bytes a number.

    Returns
    -------
    (n, d) float32 array
        On `scratch`. A feature of zeros stays zero.

    Raises
    ------
    UserError
        If a part cannot be read or comes from other towers than another, a caption is in no part,
        or a feature is not finite.
    OSError
        If the disk is full.
    """
    vectors = np.empty((len(captions), 0), np.float32)
    if not len(captions):
        return vectors
    filled = np.zeros(len(captions), bool)
    origin: dict[str, str] = {}
    for name in sorted(parts):
        features, rows = parts[name]
        part = read_part(features, rows)
        texts = part.text_features
        origin[f"{part.metadata.get('towers')}, {texts.shape[1]} numbers a text"] = features.name
        if len(origin) > 1:
            (one, first), (two, second) = origin.items()
            raise UserError(
                f"{first} and {second} come from different towers ({one}; {two}). Delete the file "
                "that is out of date, and run again."
            )
        if not vectors.shape[1]:
            vectors = _on_file(scratch, (len(captions), texts.shape[1]))
        table = part.rows[part.rows["kind"] == "text"].drop_duplicates("id")
        numbers = identities(pa.chunked_array([table["id"]], pa.string()))
        position = np.minimum(np.searchsorted(captions, numbers), len(captions) - 1)
        new = np.flatnonzero((captions[position] == numbers) & ~filled[position])
        row = table["row"].to_numpy()[new]
        position = position[new]
        for start in range(0, len(new), _BLOCK):
            some = slice(start, start + _BLOCK)
            try:
                vectors[position[some]] = unit_rows(texts[row[some]])
            except ValueError as error:
                raise UserError(
                    f"{features}: the feature of a text is not finite ({error}). Encode it in "
                    "more precision."
                ) from error
        filled[position] = True
    if not filled.all():
        raise UserError(
            f"find_similar_captions: the features hold no text {captions[~filled][0]:016x} "
            f"({int((~filled).sum())} of {len(filled)} captions of the corpus are missing). Run "
            "encode_features again."
        )
    return vectors


def _on_file(scratch: IO[bytes], shape: tuple[int, int]) -> np.ndarray:
    if hasattr(os, "posix_fallocate"):
        # Now, while it is an error: a full disk found while writing to memory ends the process.
        os.posix_fallocate(scratch.fileno(), 0, 4 * shape[0] * shape[1])
    return np.memmap(scratch, np.float32, "r+", shape=shape)
