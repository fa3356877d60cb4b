"""Vectors of captions, and the most similar others of each, exactly: cosines, block by block."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from mispair.core import files
from mispair.core.devices import free_memory, upload
from mispair.core.files import UserError
from mispair.core.resume import Keeper
from mispair.core.training import times
from mispair.pairs.index.identities import identities
from mispair.pairs.neighbours.similar_captions import (
    NOBODY,
    PORTION,
    Nearest,
    Neighbours,
    best_first,
)

SPARE = 6
"""Candidates beyond k that products in float32 select for scoring in float64."""

_GROUP = 32
_CACHED = 2**24
_LARGEST_SIDE = {"cpu": 2048, "cuda": 16384}
"""Rows of a block: on a CPU its scores stay in the cache, on a GPU they occupy the whole device."""


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Return vectors (n, d) of any floating-point type at length 1 in float32; zero stays zero.

    Raises
    ------
    ValueError
        If a value is not finite.
    """
    exact = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("nd,nd->n", exact, exact))
    if not np.isfinite(lengths).all():
        raise ValueError(f"row {np.flatnonzero(~np.isfinite(lengths))[0]} is not finite")
    return (exact / np.where(lengths > 0, lengths, 1)[:, None]).astype(np.float32)


def nearest_rows(
    rows: np.ndarray,
    k: int,
    memory: int = 2**28,
    device: str = "cpu",
    progress: Callable[[float], None] = lambda share: None,
    keeper: Keeper[np.ndarray] | None = None,
) -> Iterator[Neighbours]:
    """Yield for each row the k others with the largest cosine; equal ones by smaller index.

    The scores of one block of rows with another serve both blocks, so that half of the n x n
    product is computed. Selection must be cheap compared with it: scores form groups of 32, and
    only groups whose largest exceeds the row's running last place are inspected. The k + 6 best by
    products in float32 are scored again in float64. So equal vectors have equal similarities, and
    the result does not depend on the order in which a processor adds.

    Parameters
    ----------
    rows : (n, d) float32 array
        Rows of length 1, or of zeros, which have no neighbours. A memory map is read in blocks.
    memory : int
        Bound of the working blocks in bytes, next to 8 k + 52 bytes for each row. A GPU holds all
        rows if they take at most half of its free memory, and may use a quarter of it for blocks.
    progress, keeper
        `progress` gets the share of the product that is done. `keeper` gets the state between
        blocks when it is due; if it has one, the search resumes from it.

    Yields
    ------
    others, similarities : (m, k) arrays
        Of the next m rows; m is `nearest.PORTION` except for the last.
    """
    n, width = rows.shape
    held: np.ndarray | Tensor = rows
    if device != "cpu":
        free = free_memory(device)
        memory = max(memory, free // 4)
        if rows.nbytes <= free // 2:
            held = torch.from_numpy(np.ascontiguousarray(rows)).to(device)
    side = _side(width, k + SPARE, memory, device)
    best = Nearest(n, k + SPARE)
    done, number = best.resume(keeper), 0
    for start in range(0, n, side):
        first = _load(held, start, side, device)
        # Each block meets the others in ascending order: a score that only equals a row's last
        # place has the larger index, and can be skipped.
        for later in range(start, n, side):
            number += 1
            if number <= done:
                continue
            second = first if later == start else _load(held, later, side, device)
            scores = _scores(second, first)
            if later == start:
                scores.fill_diagonal_(-torch.inf)
            _offer(best, scores, later, start)
            if later > start:
                _offer(best, scores.mT, start, later)
            best.keep(keeper, number)
        if number > done:
            progress(1 - (max(n - start - side, 0) / n) ** 2)
    yield from judged_portions(rows, best, k)


def judged_portions(rows: np.ndarray, best: Nearest, k: int) -> Iterator[Neighbours]:
    """Yield the k best of the candidates of all rows, in the order of their exact cosines."""
    for start in range(0, len(rows), PORTION):
        yield _judged(rows, best, slice(start, min(start + PORTION, len(rows))), k)


def _side(width: int, kept: int, memory: int, device: str) -> int:
    """Return the rows of a block whose scores, maxima, rows and offers fit in the memory."""
    side = _LARGEST_SIDE[device]
    while side > _GROUP and side * (5 * side + 8 * width + 64 * kept) > memory:
        side //= 2
    return side


def _load(rows: np.ndarray | Tensor, start: int, side: int, device: str) -> Tensor:
    if isinstance(rows, Tensor):
        return rows[start : start + side]
    return torch.from_numpy(np.array(rows[start : start + side])).to(device)


def _scores(left: Tensor, right: Tensor) -> Tensor:
    scores = times(left, right.mT)
    for dimension, block in enumerate((left, right)):
        zero = block.norm(dim=1) == 0
        if zero.is_cuda or zero.any():  # reading from a GPU synchronises it
            scores.masked_fill_(zero.unsqueeze(1 - dimension), -torch.inf)
    return scores


def _offer(best: Nearest, scores: Tensor, start: int, first_column: int) -> None:
    """Offer columns, from `first_column` on, to the rows from `start` whose best they may be."""
    short = -scores.shape[1] % _GROUP
    if short:
        scores = F.pad(scores, (0, short), value=-torch.inf)
    groups = scores.unflatten(1, (_GROUP, -1))  # the columns of a group are not adjacent
    maxima = _maxima(groups)
    lowest = torch.from_numpy(best.floor[start : start + len(scores)])
    floor = upload(lowest, scores.device)
    if maxima.shape[1] >= best.capacity and torch.isneginf(lowest).any():
        # The k largest of the maxima are k scores: lower scores are not among the k best.
        reached = maxima.topk(best.capacity).values[:, -1]
        floor = floor.maximum(reached.nextafter(torch.full_like(reached, -torch.inf)))
    row, group = (maxima > floor[:, None]).nonzero(as_tuple=True)
    hits = groups[row, :, group]
    hit, member = (hits > floor[row, None]).nonzero(as_tuple=True)
    best.offer(
        (start + row[hit]).cpu().numpy(),
        (first_column + member * groups.shape[2] + group[hit]).cpu().numpy(),
        hits[hit, member].cpu().numpy(),
    )


def _maxima(groups: Tensor) -> Tensor:
    """Return the maxima (rows, groups) of groups (rows, members, groups).

    PyTorch is sixty times slower on a transposed view, so the view is transposed back first.
    """
    if groups.stride(0) == 1:
        return groups.permute(1, 2, 0).amax(dim=0).mT
    return groups.amax(dim=1)


def _judged(rows: np.ndarray, best: Nearest, portion: slice, k: int) -> Neighbours:
    """Return the k best of the candidates of some rows by cosines added up in float64."""
    step = max(1, _CACHED // (8 * rows.shape[1] * best.capacity))
    parts = []
    for start in range(portion.start, portion.stop, step):
        some = slice(start, min(start + step, portion.stop))
        candidates, _ = best.best(some)
        nobody = candidates == NOBODY
        vectors = rows[np.where(nobody, 0, candidates)].astype(np.float64)
        # Not by BLAS: there the position of a vector can change the last digits of its product.
        cosines = np.einsum("ncd,nd->nc", vectors, rows[some].astype(np.float64))
        parts.append(best_first(candidates, np.where(nobody, -np.inf, cosines), k))
    neighbours, similarities = zip(*parts, strict=True)
    return np.concatenate(neighbours), np.concatenate(similarities)


# The text features of captions, one per text, gathered for comparison.

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
        cannot be read, its rows are beyond its features, a caption is in no part, or a feature is
        not finite.
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
        table, _ = files.read_parquet(table_of_rows)
        if texts.ndim != 2 or not {"kind", "id", "row"} <= {*table}:
            raise UserError(
                f"{path} and {table_of_rows} are not features that encode_captions wrote. Delete "
                "both, and run again."
            )
        origin[f"{metadata.get('towers')}, {texts.shape[1]} numbers a text"] = path.name
        if len(origin) > 1:
            (one, first), (two, second) = origin.items()
            raise UserError(
                f"{first} and {second} come from different towers ({one}; {two}). Delete the file "
                "that is out of date, and run again."
            )
        if not vectors.shape[1]:
            vectors = files.mapped(scratch, np.float32, (len(captions), texts.shape[1]))
        table = table[table["kind"] == "text"].drop_duplicates("id")
        if len(table) and not 0 <= table["row"].min() <= table["row"].max() < len(texts):
            raise UserError(
                f"{path} has {len(texts)} texts, and {table_of_rows} has rows beyond them: they "
                "come from different runs. Delete both, and run again."
            )
        numbers = identities(table["id"])
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
