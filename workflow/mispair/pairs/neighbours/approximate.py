"""The features most similar to each without the comparison of all with all.

The n rows are cut into about 2 sqrt(n) cells: those nearest to a centre of spherical k-means on a
sample, as in an inverted file (IVF). Each row visits its own cell, then that of the next nearest
centre, and so on, and is compared with all rows there. All rows that visit a cell are one product
with those of the cell, so a visit costs n^1.5 operations, at the rate of large products.

After each visit the recall is measured on random rows, whose nearest are also searched exactly; the
visits end when it suffices. So the effort follows from the data and not from a setting.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mispair.core import seeds
from mispair.core.files import UserError
from mispair.core.resume import Keeper
from mispair.core.training import times
from mispair.core.words import percent
from mispair.pairs.neighbours.similar_captions import (
    QUERIES,
    RECALL,
    Found,
    Nearest,
    measured_recall,
)
from mispair.pairs.neighbours.similarity import SPARE, judged_portions

MOST_VISITS = 64
"""Cells that a row visits at most."""

_ROUNDS, _PER_CELL = 6, 32
"""Rounds of k-means, and sampled rows for each centre."""

_BLOCK, _SIDE = 8192, 2048


def nearest_by_cells(
    rows: np.ndarray,
    k: int,
    memory: int = 2**28,
    progress: Callable[[float], None] = lambda share: None,
    keeper: Keeper[np.ndarray] | None = None,
) -> Found:
    """Find for each row nearly all of the k others with the largest cosine.

    Parameters
    ----------
    rows : (n, d) float32 or float16 array
        Rows of length 1, or of zeros, which have no neighbours. A memory map is read in blocks.
    memory : int
        Bound of the working blocks in bytes, next to 8 k + 180 bytes for each row and a sample of
        about 64 sqrt(n) rows.
    progress, keeper
        As for `similarity.nearest_rows`; progress is that in the recall.

    Raises
    ------
    UserError
        If `MOST_VISITS` cells do not suffice for `RECALL`.
    """
    draw = seeds.generator("find_similar_captions", "cells", len(rows))
    kept = _with_direction(rows)
    count = min(len(kept), max(1, round(2 * math.sqrt(len(kept)))))
    centres = _centres(rows, kept, count, draw)
    nearest = _nearest_centres(rows, kept, centres, min(MOST_VISITS, count))
    members = _by_cell(nearest[0], count, kept) if count else []
    queries = np.sort(draw.permutation(kept)[:QUERIES])
    parts = np.array_split(queries, 1 + len(queries) // 500)
    least = np.concatenate([_largest(rows, part, k) for part in parts])
    side = _side(memory, rows.shape[1])
    best = Nearest(len(rows), k + SPARE)
    done, number, visits = best.resume(keeper), 0, 0
    recall = at_least = 0.0 if np.isfinite(least).any() else 1.0
    while at_least < RECALL and visits < len(nearest):
        for coming, of_cell in zip(_by_cell(nearest[visits], count, kept), members, strict=True):
            number += 1
            if number > done:
                _compare(best, rows, side, coming, of_cell, within=visits == 0)
                best.keep(keeper, number)
        visits += 1
        if number >= done:  # the state of an interrupted search is that of a later visit
            recall, at_least = measured_recall(best.best(queries)[1], least)
            progress(min(1.0, at_least / RECALL))
    if at_least < RECALL:
        raise UserError(
            f"find_similar_captions: {visits} of {count} cells hold {percent(recall, 1)} of the "
            f"nearest captions, and {percent(RECALL)} are wanted: these features have no near "
            "groups. Set find_similar_captions.search to exact."
        )
    return Found(judged_portions(rows, best, k), recall, len(queries), visits)


def _compare(
    best: Nearest, rows: np.ndarray, side: int, coming: np.ndarray, members: np.ndarray,
    within: bool,
) -> None:  # fmt: skip
    """Offer the rows of a cell to those that visit it, which are the same rows if `within`."""
    for first in range(0, len(members), side):
        offered = members[first : first + side]
        right = _tensor(rows, offered).mT
        for start in range(0, len(coming), side):
            some = coming[start : start + side]
            cosines = times(_tensor(rows, some), right)
            if within and start == first:
                cosines.fill_diagonal_(-torch.inf)
            floor = torch.from_numpy(best.floor[some])
            if len(offered) >= best.capacity and bool(floor.isneginf().any()):
                # Scores below the last of the best here are not among the best of all.
                reached = cosines.topk(best.capacity, dim=1).values[:, -1]
                floor = floor.maximum(reached.nextafter(torch.full_like(reached, -torch.inf)))
            row, column = (cosines > floor[:, None]).nonzero(as_tuple=True)
            best.offer(some[row.numpy()], offered[column.numpy()], cosines[row, column].numpy())


def _side(memory: int, width: int) -> int:
    """Return the rows of a block whose scores, and whose rows, fit in the memory."""
    side = _SIDE
    while side > 32 and side * (6 * side + 8 * width) > memory:
        side //= 2
    return side


def _tensor(rows: np.ndarray, which: np.ndarray | slice) -> Tensor:
    return torch.from_numpy(np.array(rows[which])).float()


def _with_direction(rows: np.ndarray) -> np.ndarray:
    """Return the positions of rows that are not zero."""
    starts = range(0, len(rows), _BLOCK)
    parts = [np.zeros(0, bool), *(rows[s : s + _BLOCK].any(axis=1) for s in starts)]
    return np.flatnonzero(np.concatenate(parts))


def _centres(rows: np.ndarray, kept: np.ndarray, count: int, draw: np.random.Generator) -> Tensor:
    """Return centres of cells, (count, d), of length 1, by spherical k-means on a sample."""
    vectors = _tensor(rows, np.sort(draw.permutation(kept)[: _PER_CELL * count]))
    centres = vectors[torch.from_numpy(np.sort(draw.permutation(len(vectors))[:count]))]
    for _ in range(_ROUNDS if count > 1 else 0):
        cells = torch.cat([times(part, centres.mT).argmax(dim=1) for part in vectors.split(_BLOCK)])
        sums = torch.zeros_like(centres).index_add_(0, cells, vectors)
        lengths = sums.norm(dim=1, keepdim=True)
        centres = torch.where(lengths > 0, sums / lengths.clamp_min(1e-30), centres)
    return centres


def _nearest_centres(rows: np.ndarray, kept: np.ndarray, centres: Tensor, most: int) -> np.ndarray:
    """Return the nearest centres of rows, nearest first, (most, kept)."""
    nearest = np.empty((most, len(kept)), np.uint16 if len(centres) < 2**16 else np.int32)
    for start in range(0, len(kept), _BLOCK):
        some = slice(start, start + _BLOCK)
        cosines = times(_tensor(rows, kept[some]), centres.mT)
        nearest[:, some] = cosines.topk(most, dim=1).indices.mT.numpy()
    return nearest


def _by_cell(cells: np.ndarray, count: int, kept: np.ndarray) -> list[np.ndarray]:
    """Return the rows of each cell, in their order."""
    order = np.argsort(cells, kind="stable")
    return np.split(kept[order], np.searchsorted(cells[order], np.arange(1, count)))


def _largest(rows: np.ndarray, queries: np.ndarray, k: int) -> np.ndarray:
    """Return the k largest cosines of some rows with others, by all products, (queries, k)."""
    asked, own = _tensor(rows, queries), torch.from_numpy(queries)
    largest = torch.full((len(queries), k), -torch.inf)
    for start in range(0, len(rows), _BLOCK):
        block = _tensor(rows, slice(start, start + _BLOCK))
        scores = times(asked, block.mT)
        scores.masked_fill_(block.norm(dim=1) == 0, -torch.inf)
        inside = ((own >= start) & (own < start + len(block))).nonzero()[:, 0]
        scores[inside, own[inside] - start] = -torch.inf
        largest = torch.cat([largest, scores], dim=1).topk(k, dim=1).values
    return largest.numpy()
