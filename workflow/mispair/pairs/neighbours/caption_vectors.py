"""The text features of captions, one per text, gathered for comparison."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from mispair.core import files
from mispair.core.files import UserError
from mispair.pairs.index.identities import identities
from mispair.pairs.neighbours.similarity import unit_rows

_BLOCK = 8192


def gather_vectors(
    features: Sequence[Path], rows: Sequence[Path], captions: np.ndarray, scratch: IO[bytes]
) -> np.ndarray:
    """Collect the text features of captions, of length 1, in a memory map: (n, d) float32.

    Parts are read one at a time in the order of their names. A text that several parts hold is
    taken from the first, so the order of the arguments changes nothing. A feature of zeros stays
    zero.

    Parameters
    ----------
    features, rows : sequence of Path
        ``PART.safetensors``, and the tables of their rows, ``PART.parquet``.
    captions : (n,) uint64 array
        Identities of the captions, sorted.
    scratch : file
        Empty, open for reading and writing. It takes 4 bytes per number.

    Raises
    ------
    UserError
        If there is no part, a part lacks one of its files, parts come from different towers, a file
        cannot be read, a caption is in no part, or a feature is not finite.
    OSError
        If the disk is full.
    """
    parts = _parts(features, rows)
    vectors = np.empty((len(captions), 0), np.float32)
    if not len(captions):
        return vectors
    filled = np.zeros(len(captions), bool)
    origin: dict[str, str] = {}
    for path, table_of_rows in parts:
        tensors, metadata = files.read_tensors(path)
        texts = tensors.get("text_features", np.empty((0, 0), np.float32))
        origin[f"{metadata.get('towers')}, {texts.shape[1]} numbers a text"] = path.name
        if len(origin) > 1:
            (one, first), (two, second) = origin.items()
            raise UserError(
                f"{first} and {second} come from different towers ({one}; {two}). Delete the file "
                "that is out of date, and run again."
            )
        if not vectors.shape[1]:
            vectors = _on_file(scratch, (len(captions), texts.shape[1]))
        table, _ = files.read_parquet(table_of_rows)
        table = table[table["kind"] == "text"].drop_duplicates("id")
        numbers = identities(pa.chunked_array([table["id"]], pa.string()))
        position = np.minimum(np.searchsorted(captions, numbers), len(captions) - 1)
        new = np.flatnonzero((captions[position] == numbers) & ~filled[position])
        row, position = table["row"].to_numpy()[new], position[new]
        for start in range(0, len(new), _BLOCK):
            some = slice(start, start + _BLOCK)
            try:
                vectors[position[some]] = unit_rows(texts[row[some]])
            except ValueError as error:
                raise UserError(
                    f"{path}: the feature of a text is not finite ({error}). Encode it with "
                    "higher precision."
                ) from error
        filled[position] = True
    if not filled.all():
        raise UserError(
            f"find_similar_captions: the features hold no text {captions[~filled][0]:016x} "
            f"({int((~filled).sum())} of {len(filled)} captions of the corpus are missing). Run "
            "encode_captions again."
        )
    return vectors


def _parts(features: Sequence[Path], rows: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Return the features and the table of rows of each part, in the order of their names."""
    tables = {path.stem: path for path in rows}
    parts = {path.stem: (path, tables[path.stem]) for path in features if path.stem in tables}
    if not len(parts) == len(features) == len(rows):
        odd = sorted({path.stem for path in features} ^ tables.keys()) or sorted(parts)
        raise UserError(
            f"find_similar_captions: each group needs one file of features and one of their "
            f"rows, of the same name; check {', '.join(odd[:5])}."
        )
    if not parts:
        raise UserError(
            "find_similar_captions: measure features compares features of the captions: give them "
            "with --features and --feature-rows."
        )
    return [parts[name] for name in sorted(parts)]


def _on_file(scratch: IO[bytes], shape: tuple[int, int]) -> np.ndarray:
    if hasattr(os, "posix_fallocate"):
        # A full disk is an error here; while writing to the memory map it would end the process.
        os.posix_fallocate(scratch.fileno(), 0, 4 * shape[0] * shape[1])
    return np.memmap(scratch, np.float32, "r+", shape=shape)
