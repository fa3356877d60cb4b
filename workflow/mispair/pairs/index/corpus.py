"""The corpus of a run: the kept pairs of all shards, sorted by key, without repeated ones.

All functions work on columns, so that twelve million pairs take hundreds of megabytes and not tens
of gigabytes: identities of captions and images (16 hexadecimal digits) are held as 64-bit
integers, and texts are not held at all. A pair's *position* is its place in the order of groups
and of rows within them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mispair.core import files, provenance
from mispair.core.files import UserError
from mispair.pairs.index.books import IMAGE, KEY, Reason, read_columns
from mispair.pairs.index.identities import caption_identities, hexadecimal, identities

BLOCK = 1 << 17
"""Pairs that are turned into text at a time; results do not depend on it."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of all groups, one array element for each position unless said otherwise.

    Attributes
    ----------
    groups : tuple of str
        Names of the groups, sorted.
    starts : (groups + 1,) int64 array
        Position of each group's first pair, and the number n of pairs.
    rows : (n,) int32 array
        Row of the image of each pair among the images of its group.
    keys : (n,) pyarrow.LargeStringArray
        Keys.
    shards : tuple of str
        File names of the shards that hold pairs, group by group.
    shard : (n,) int32 array
        Which of `shards` each pair is in.
    caption_ids, image_ids : (n,) uint64 arrays
        Identities of the caption and of the image.
    more_caption_ids : (n,) pyarrow.LargeListArray of uint64
        Identities of further captions.
    order : (n,) int64 array
        Positions sorted by key (by its UTF-8 bytes), equal keys by position.
    """

    groups: tuple[str, ...]
    starts: np.ndarray
    rows: np.ndarray
    keys: pa.LargeStringArray
    shards: tuple[str, ...]
    shard: np.ndarray
    caption_ids: np.ndarray
    image_ids: np.ndarray
    more_caption_ids: pa.LargeListArray
    order: np.ndarray

    def group_of(self, positions: np.ndarray) -> np.ndarray:
        """Return the number of the group that holds each position."""
        return np.searchsorted(self.starts, positions, side="right") - 1

    def texts(self, positions: np.ndarray) -> np.ndarray:
        """Return the identities of all captions of pairs, first and further ones, uint64."""
        further = self.more_caption_ids.take(pa.array(positions)).flatten().to_numpy()
        return np.concatenate([self.caption_ids[positions], further])


def read_pairs(index: Mapping[str, Path]) -> Pairs:
    """Read what identifies each pair, from the index of each group in the order of `by_group`.

    Raises
    ------
    UserError
        If a file cannot be read or is not an index.
    """
    groups = tuple(index)
    columns = ["key", "shard", "row", "caption_id", "image_id", "more_captions"]
    shards: list[str] = []
    keys, in_shard, rows, captions, images, more = [], [], [], [], [], []
    for group in groups:
        table, _ = read_columns(index[group], columns)
        keys += table["key"].cast(pa.large_string()).chunks
        shard = table["shard"].combine_chunks().dictionary_encode()
        in_shard.append(shard.indices.to_numpy() + np.int32(len(shards)))
        rows.append(table["row"].to_numpy())
        shards += shard.dictionary.to_pylist()
        try:
            captions.append(identities(table["caption_id"]))
            images.append(identities(table["image_id"]))
        except ValueError as error:
            raise UserError(f"{index[group]}: {error}. Delete it and run again.") from error
        more.append(_further(table["more_captions"]))
    together = pa.chunked_array(keys, pa.large_string()).combine_chunks()
    empty = np.zeros(0, np.uint64)
    return Pairs(
        groups=groups,
        starts=np.cumsum([0, *(len(part) for part in captions)], dtype=np.int64),
        rows=np.concatenate([np.zeros(0, np.int32), *rows]),
        keys=together,
        shards=tuple(shards),
        shard=np.concatenate([np.zeros(0, np.int32), *in_shard]),
        caption_ids=np.concatenate([empty, *captions]),
        image_ids=np.concatenate([empty, *images]),
        more_caption_ids=pa.chunked_array(more, pa.large_list(pa.uint64())).combine_chunks(),
        order=pc.sort_indices(together).to_numpy().view(np.int64),
    )


def _further(texts: pa.ChunkedArray) -> pa.LargeListArray:
    """Return the identities of lists of captions; each distinct text is hashed once."""
    lists = texts.combine_chunks()
    flat = lists.flatten().dictionary_encode()
    identities = caption_identities(flat.dictionary.to_pylist())
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    return pa.LargeListArray.from_arrays(offsets, pa.array(identities[flat.indices.to_numpy()]))


def same_key_as_before(pairs: Pairs) -> np.ndarray:
    """Return whether each pair but the first, in order of keys, has the key of the previous."""
    same = [np.zeros(0, bool)]
    for start in range(1, len(pairs.order), BLOCK):
        keys = pairs.keys.take(pa.array(pairs.order[start - 1 : start + BLOCK]))
        same.append(pc.equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False))
    return np.concatenate(same)


CORPUS = pa.schema(
    [
        ("key", pa.string()),
        ("group", pa.string()),
        ("row", pa.int32()),
        ("caption_id", pa.string()),
        ("more_caption_ids", pa.list_(pa.string())),
    ]
)
"""Columns of the corpus; ``row`` is that of the pair's image among those of its group."""


def blocks(pairs: Pairs, kept: np.ndarray) -> Iterator[tuple[pa.Table, pa.StringArray]]:
    """Yield the corpus in order of keys, a part at a time, each with the identities of its images.

    `kept`, (n,) bool, marks the pairs that the corpus holds.
    """
    order = pairs.order[kept[pairs.order]]
    for start in range(0, len(order), BLOCK):
        positions = order[start : start + BLOCK]
        taken = pa.array(positions)
        group = pairs.group_of(positions)
        more = pairs.more_caption_ids.take(taken)
        offsets = more.offsets.to_numpy() - more.offsets[0].as_py()
        table = pa.table(
            [
                pairs.keys.take(taken).cast(pa.string()),
                pa.array(pairs.groups, pa.string()).take(pa.array(group)),
                pa.array(pairs.rows[positions]),
                hexadecimal(pairs.caption_ids[positions]),
                pa.ListArray.from_arrays(
                    pa.array(offsets.astype(np.int32)), hexadecimal(more.flatten().to_numpy())
                ),
            ],
            schema=CORPUS,
        )
        yield table, hexadecimal(pairs.image_ids[positions])


def fingerprint(parts: Iterable[tuple[pa.Table, pa.StringArray]]) -> str:
    """Return 16 hexadecimal digits of the SHA-256 that name the data in the `blocks` of a corpus.

    One line per pair, in order of keys: ``CAPTION_ID IMAGE_ID FURTHER_IDS KEY`` with commas between
    further captions. The shard and the group of a pair make no difference.
    """

    def lines() -> Iterator[str]:
        for table, image_ids in parts:
            further = pc.binary_join(table["more_caption_ids"], ",")
            fields = (table["caption_id"], image_ids, further, table["key"])
            yield from pc.binary_join_element_wise(*fields, " ").to_pylist()

    return provenance.fingerprint(lines())


def write_corpus(path: Path, pairs: Pairs, kept: np.ndarray, metadata: Mapping[str, str]) -> None:
    """Write the corpus as Parquet, a block at a time."""
    metadata = dict(metadata)
    with (
        files.replacing(path) as temporary,
        pq.ParquetWriter(temporary, CORPUS.with_metadata(metadata), compression="zstd") as writer,
    ):
        for table, _ in blocks(pairs, kept):
            writer.write_table(table.replace_schema_metadata(metadata))


# Find keys and images that a corpus has several times, and exclude them.


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
