"""Groups of images, such as the region where a picture was taken, and the worst group's accuracy.

A set carries groups if each sample has one: ``KEY.json`` with the field ``group``, a text or a
whole number; or, in sets of DataComp and WILDS, a column of the numbers in ``KEY.npy``
(`mispair.evaluation.datacomp`).
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from mispair.core.files import UserError
from mispair.core.intervals import Row, share_row, worst_of_shares
from mispair.evaluation.datacomp import DatacompTask
from mispair.pairs.shards.shards import SIDECAR_EXTENSION, Sample

log = logging.getLogger(__name__)

FIELD = "group"
MOST_LETTERS = 200
"""Length of the longest name of a group."""
LARGEST_NUMBER = 9_999
"""Largest number of a group in ``KEY.npy``."""

OF_GROUP, WORST = "group_acc1", "worst_group_acc"
ABSENT = "groups_without_images"

Group = str | tuple[int, ...] | None
"""A name; or a number of ``KEY.npy``, followed by the class where both form the group."""


def group_of(shard: Path, sample: Sample, label: int, task: DatacompTask | None) -> Group:
    """Return the group of a sample, or None if it names none.

    Parameters
    ----------
    shard : Path
        Its shard, for messages.
    sample : Sample
        With ``KEY.npy`` or ``KEY.json``.
    label : int
        Its class.
    task : Task or None
        Task whose groups are in ``KEY.npy``; without one, ``KEY.json`` has the group.

    Raises
    ------
    UserError
        If the file holds no usable group.
    """
    if task is not None and "npy" in sample.members:
        number = _number(shard, sample, task)
        return (number, label) if task.with_class else (number,)
    name = sidecar(shard, sample).get(FIELD)
    if name is None:
        return None
    if isinstance(name, int):
        name = str(name)
    if not isinstance(name, str) or not name.strip() or len(name) > MOST_LETTERS:
        raise UserError(
            f"{shard}: {sample.key}.json must give {FIELD} as a text of 1 to {MOST_LETTERS} "
            f"letters, such as 'landbird on water', not {str(name)[:40]!r}."
        )
    return name.strip()


def sidecar(shard: Path, sample: Sample) -> dict[str, Any]:
    """Return the fields of ``KEY.json``; none if the file is missing or holds another value.

    Raises
    ------
    UserError
        If it is not JSON.
    """
    try:
        content = json.loads(sample.members.get(SIDECAR_EXTENSION, b"{}").decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{shard}: {sample.key}.json is not JSON ({error}).") from error
    return content if isinstance(content, dict) else {}


def _number(shard: Path, sample: Sample, task: DatacompTask) -> int:
    try:
        values = np.load(io.BytesIO(sample.members["npy"]), allow_pickle=False).ravel()
        number = float(values[0])
    except (ValueError, EOFError, IndexError, OSError, TypeError, MemoryError) as error:
        raise UserError(
            f"{shard}: {sample.key}.npy must hold numbers, the {task.group} in column 0 ({error})."
        ) from error
    if not number.is_integer() or not 0 <= number <= LARGEST_NUMBER:
        raise UserError(
            f"{shard}: {sample.key}.npy has {task.group} {number:g} in column 0; it must "
            f"be a whole number from 0 to {LARGEST_NUMBER}."
        )
    return int(number)


def numbered(
    groups: Sequence[Group], task: DatacompTask | None
) -> tuple[np.ndarray, list[str]] | None:
    """Return the number of each image's group and the names of all groups, or None without groups.

    Names are in order. They include groups of numbers (and classes) without images if a larger
    number has images; a warning names these groups.

    Parameters
    ----------
    groups : sequence
        Group of each image; all of them names, or all of them numbers.
    task : Task or None
        As in `group_of`.
    """
    if not groups or groups[0] is None:
        return None
    named = [group for group in groups if isinstance(group, str)]
    counted = [group for group in groups if isinstance(group, tuple)]
    if task is None or named:
        names = sorted(set(named))
        places = {name: number for number, name in enumerate(names)}
        return np.array([places[name] for name in named], dtype=np.int64), names
    extents = np.max(counted, axis=0) + 1
    every = [*product(*map(range, extents))]
    names = [f"{task.group} {each[0]}" for each in every]
    if task.with_class:
        names = [f"{name}, class {each[1]}" for name, each in zip(names, every, strict=True)]
    numbers = np.ravel_multi_index(tuple(np.transpose(counted)), tuple(extents))
    counts = np.bincount(numbers, minlength=len(names))
    if absent := [name for name, count in zip(names, counts, strict=True) if count == 0]:
        log.warning("no image belongs to %s; the worst group is one with images", ", ".join(absent))
    return numbers, names


def group_rows(
    ranks: np.ndarray, groups: np.ndarray, names: Sequence[str], classes: int
) -> list[Row]:
    """Return the top-1 accuracy of each group, and the top-1 and top-5 accuracy of the worst one.

    Parameters
    ----------
    ranks : (n,) int array
        How many classes are ranked before the true one.
    groups : (n,) int array
        Number of each image's group in `names`.
    names : sequence of str
        Groups without images are left out; how many there are is a row `ABSENT`, if any are.
    classes : int
        Number of classes, for the accuracy by chance.

    Returns
    -------
    list of dict
        Rows ``group_acc1`` with the name of the group as ``classname``; ``worst_group_acc1`` and
        ``worst_group_acc5``, of all images, with the interval of `worst_of_shares`. Rows of the
        worst group need at least two groups with images.
    """
    counts = np.bincount(groups, minlength=len(names))
    present = np.flatnonzero(counts)
    rows: list[Row] = []
    for best in (1, 5):
        hits = np.bincount(groups[ranks < best], minlength=len(names))
        chance = min(best, classes) / classes
        if best == 1:
            for group in present.tolist():
                row = share_row(OF_GROUP, int(hits[group]), int(counts[group]), chance)
                rows.append({**row, "classname": names[group]})
        if len(present) > 1:
            shares = hits[present] / counts[present]
            low, high = worst_of_shares(hits[present], counts[present])
            rows.append({
                "metric": f"{WORST}{best}", "value": float(shares.min()), "n": len(ranks),
                "low": low, "high": high, "chance": chance,
            })  # fmt: skip
    if absent := len(names) - len(present):
        rows.append({"metric": ABSENT, "value": absent, "n": len(names)})
    return rows
