"""Pack listed pairs into a webdataset shard: files as they are, captions of tables as JSON."""

import json
import os
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from mispair.core import files
from mispair.core.stamps import state_of
from mispair.pairs.shards.packed_keys import MARK, member_key
from mispair.pairs.shards.shard_writer import member_header
from mispair.pairs.shards.shards import (
    BUFFER_BYTES,
    CAPTION_EXTENSION,
    IMAGE_EXTENSIONS,
    MAX_MEMBER_BYTES,
    SIDECAR_EXTENSION,
)
from mispair.pairs.shards.tar_members import PIPE, SYMBOLIC_LINK, UNREADABLE
from mispair.pairs.sources import parquet
from mispair.pairs.sources.columns import Columns
from mispair.pairs.sources.source import Entry, Source, links_out
from mispair.pairs.sources.table_rows import ending_of

PLAIN = tarfile.REGTYPE
Member = tuple[str, bytes, bytes]
"""Ending, content and type of a member."""


NOTHING: Member = (SIDECAR_EXTENSION, b"{}", PLAIN)
"""Member of a pair that has neither a picture nor a caption: it has a verdict, too."""


def pack(source: Source, shard: Path, packed: Callable[[], None]) -> dict[str, list[Any]]:
    """Write a shard with the pairs of a source, whole or not at all.

    Every entry becomes a sample, whatever is wrong with it, so that it gets a verdict: a link out
    of the folder, a pipe and a file that cannot be read are members without content. The same
    pairs give the same bytes. `packed` is called after each sample.

    Returns
    -------
    dict of str to list
        State and digest of each file that was read whole, as `remember_many` takes them.
    """
    states: dict[str, list[Any]] = {}
    with files.replacing(shard) as temporary, temporary.open("wb", BUFFER_BYTES) as opened:
        opened.write(MARK)
        for key, members in _samples(source, states):
            name = member_key(key)
            for ending, content, kind in members or [NOTHING]:
                opened.write(member_header(_writable(f"{name}.{ending}"), len(content), kind))
                opened.write(content)
                opened.write(bytes(-len(content) % tarfile.BLOCKSIZE))
            packed()
        opened.write(bytes(2 * tarfile.BLOCKSIZE))
        opened.write(bytes(-opened.tell() % tarfile.RECORDSIZE))
    return states


def _writable(name: str) -> bytes:
    """Return a name in bytes, of lone surrogates single ones; the index then refuses it."""
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogatepass")


def _samples(source: Source, states: dict[str, list[Any]]) -> Iterator[tuple[str, list[Member]]]:
    for entry in source.entries:
        if source.columns:
            yield from _of_parquet(entry, Columns(*source.columns))
            continue
        members = [_picture(path, source.boundary, states) for path in entry.pictures]
        members += [_text(path, source.boundary, states) for path in entry.texts]
        yield entry.key, [*members, *_captions(entry.captions, dict(entry.fields))]


def _of_parquet(entry: Entry, columns: Columns) -> Iterator[tuple[str, list[Member]]]:
    for key, ending, picture, captions, fields in parquet.samples(entry, columns):
        members = [] if picture is None else [(ending, picture, PLAIN)]
        yield key, [*members, *_captions(captions, fields)]


def _captions(texts: Iterable[Any] | None, fields: dict[str, str]) -> list[Member]:
    """Return the caption's text file and the JSON with all captions, or nothing without any."""
    captions = [text for text in texts or () if text is not None]
    if not captions and not fields:
        return []
    content = json.dumps({"captions": captions, **fields}).encode()
    members = [(SIDECAR_EXTENSION, content, PLAIN)]
    if captions:
        first = str(captions[0]).encode("utf-8", "surrogatepass")
        members.append((CAPTION_EXTENSION, first, PLAIN))
    return members


def _picture(path: str, boundary: Path | None, states: dict[str, list[Any]]) -> Member:
    content, kind = _read(path, boundary, states)
    ending = ending_of(path)
    is_known = ending in IMAGE_EXTENSIONS
    return ending if is_known else parquet.ending_by_content(content), content, kind


def _text(path: str, boundary: Path | None, states: dict[str, list[Any]]) -> Member:
    ending = ending_of(path)
    is_sidecar = ending == SIDECAR_EXTENSION
    return (SIDECAR_EXTENSION if is_sidecar else CAPTION_EXTENSION, *_read(path, boundary, states))


def _read(path: str, boundary: Path | None, states: dict[str, list[Any]]) -> tuple[bytes, bytes]:
    """Return the content of a file, and its type: that of what has no content is not plain."""
    try:
        if boundary is not None and links_out(path, boundary):
            return b"", SYMBOLIC_LINK
        with open(path, "rb", buffering=0, opener=_without_waiting) as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode):
                return b"", PIPE
            if status.st_size > MAX_MEMBER_BYTES:  # the index refuses it by its size
                return bytes(MAX_MEMBER_BYTES + 1), PLAIN
            content = opened.read()
            states[path] = state_of(status, content)
            return content, PLAIN
    except OSError:
        return b"", SYMBOLIC_LINK if os.path.islink(path) else UNREADABLE


def _without_waiting(path: str, flags: int) -> int:
    """Open a file at once, also a pipe that nothing writes to."""
    return os.open(path, flags | os.O_NONBLOCK)
