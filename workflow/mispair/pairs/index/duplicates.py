"""Find keys and images that a corpus has several times, and exclude them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mispair.core.files import UserError
from mispair.pairs.index.books import IMAGE, KEY, Reason
from mispair.pairs.index.corpus import Pairs, same_key_as_before


def exclude(
    pairs: Pairs, duplicate_keys: str, duplicate_images: str
) -> tuple[np.ndarray, pa.Table]:
    """Apply the policies that need the whole corpus: first on keys, then on images.

    Parameters
    ----------
    pairs : Pairs
        All pairs.
    duplicate_keys : {"refuse", "first", "drop"}
        A key that is in several shards: an error, or the first pair by position is kept, or none.
    duplicate_images : {"keep", "first"}
        An image (the same bytes) in several pairs: all are kept, or the first by position.

    Returns
    -------
    kept : (n,) bool array
        Which pairs are left, over positions.
    excluded : pyarrow.Table
        The excluded pairs, sorted by key: key, shard, reason, detail and group.

    Raises
    ------
    UserError
        If keys repeat and are refused.
    """
    repeated = _repeats(pairs.order, same_key_as_before(pairs))
    if len(repeated.members) and duplicate_keys == "refuse":
        raise UserError(_refusal(pairs, repeated))
    out = np.ones(len(repeated.members), bool)
    if duplicate_keys == "first":
        out = repeated.members != repeated.firsts
    positions = repeated.members[out]
    details = [
        f"is in {times} places, the first in {position}"
        for times, position in zip(
            repeated.times[out], _places(pairs, repeated.firsts[out]), strict=True
        )
    ]
    reasons = [KEY] * len(positions)
    kept = np.ones(len(pairs.keys), bool)
    kept[positions] = False
    if duplicate_images == "first":
        remaining = np.flatnonzero(kept)
        remaining = remaining[np.argsort(pairs.image_ids[remaining], kind="stable")]
        images = pairs.image_ids[remaining]
        same = _repeats(remaining, images[1:] == images[:-1])
        out = same.members != same.firsts
        firsts = same.firsts[out]
        keys = pairs.keys.take(pa.array(firsts)).to_pylist()
        details += [
            f"the image of {key!r} in {position}"
            for key, position in zip(keys, _places(pairs, firsts), strict=True)
        ]
        reasons += [IMAGE] * int(out.sum())
        positions = np.concatenate([positions, same.members[out]])
        kept[positions] = False
    ranks = np.empty(len(pairs.order), np.int64)
    ranks[pairs.order] = np.arange(len(pairs.order))
    by_key = np.argsort(ranks[positions])
    positions = positions[by_key]
    table = {
        "key": pairs.keys.take(pa.array(positions)).cast(pa.string()),
        "shard": pa.array(pairs.shards, pa.string()).take(pa.array(pairs.shard[positions])),
        "reason": pa.array([reasons[i] for i in by_key], pa.string()),
        "detail": pa.array([details[i] for i in by_key], pa.string()),
        "group": pa.array(pairs.groups, pa.string()).take(pa.array(pairs.group_of(positions))),
    }
    return kept, pa.table(table)


@dataclass(frozen=True)
class _Repeats:
    """Positions that share a value with others, the first of these, and their number."""

    members: np.ndarray
    firsts: np.ndarray
    times: np.ndarray


def _repeats(order: np.ndarray, same: np.ndarray) -> _Repeats:
    """Find runs in sorted positions; `same` is whether each but the first equals the previous."""
    later = np.concatenate([np.zeros(min(len(order), 1), bool), same])
    inside = later.copy()
    inside[:-1] |= later[1:]
    members, later = order[inside], later[inside]
    run = np.cumsum(~later) - 1
    return _Repeats(members, members[~later][run], np.bincount(run)[run])


def _places(pairs: Pairs, positions: np.ndarray) -> list[str]:
    """Return the shard and the group of pairs as text."""
    return [
        f"{pairs.shards[shard]!r} (group {pairs.groups[group]})"
        for shard, group in zip(pairs.shard[positions], pairs.group_of(positions), strict=True)
    ]


def _refusal(pairs: Pairs, repeated: _Repeats) -> str:
    firsts = np.unique(repeated.firsts)
    examples = []
    for first in pairs.order[np.isin(pairs.order, firsts)][:3]:
        members = repeated.members[repeated.firsts == first]
        names = " and ".join(_places(pairs, members[:3]))
        more = f" and {len(members) - 3} more" if len(members) > 3 else ""
        examples.append(f"  {pairs.keys[int(first)].as_py()!r} in {names}{more}")
    return (
        f"gather_index: {len(firsts):,} keys are in more than one shard, "
        f"{len(repeated.members):,} pairs in all, for example\n" + "\n".join(examples) + "\n"
        "Captions are assigned by key, so a key must name one pair. If these are copies, "
        "set `gather_index: duplicate_keys` to `first`; if you cannot tell which is right, to "
        "`drop`; if shards were numbered twice, give their keys a prefix of their own."
    )


def excluded_reasons(table: pa.Table) -> dict[str, Reason]:
    """Count the reasons in a table of excluded pairs."""
    reasons = {}
    for row in table["reason"].value_counts().to_pylist():
        first = table.slice(pc.index(table["reason"], row["values"]).as_py(), 1).to_pylist()[0]
        example = {name: first[name] for name in ("key", "shard", "group", "detail")}
        reasons[row["values"]] = Reason(row["counts"], **example)
    return reasons
