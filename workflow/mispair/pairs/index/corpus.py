"""The corpus of a run: the kept pairs of all groups of shards, sorted by key.

All functions work on columns, so that twelve million pairs take hundreds of megabytes and not tens
of gigabytes: identities of captions and images (16 hexadecimal digits) are held as 64-bit
integers, and texts are not held at all. A pair's *position* is its place in the order of groups
and of rows within them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mispair.core import files, provenance
from mispair.core.files import UserError
from mispair.pairs.index.books import read_columns
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
