"""Shards in object stores and on web servers: listed with size and ETag, read through fsspec.

A path below ``results/`` stands for each, whether or not a copy is there.

Credentials are those that the library of a protocol finds by itself, in its environment variables
and files. An address with a password or a signature is refused: Snakemake prints commands, and the
configuration is part of the results.
"""

import fnmatch
import io
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mispair.core.files import UserError, replacing, write_json
from mispair.core.provenance import SNAKEMAKE
from mispair.core.words import count
from mispair.pairs.shards.first_samples import FirstSamples, read_first_samples
from mispair.pairs.shards.sources import expand_braces
from mispair.pairs.shards.stores import TOKEN, USER, filesystem, protocol_of, redacted, retried

GLOB = "*?["
"""Signs of a glob."""
CHUNK = 16 << 20
"""Bytes of a request: what a cut connection costs."""
START = 2 << 20
"""Bytes of a shard that are read before any job."""
FOLDER = "remote"
"""Name of the folder of copies of a corpus, ``results/pairs/CORPUS/remote``."""
NO_MARK = "no ETag"
"""The mark of a shard of which a server gives neither a hash nor a time."""
LISTINGS = SNAKEMAKE / "mispair" / "remote"
"""Folder with the listing of each corpus of remote shards, for the jobs of a run."""

_OTHER = re.compile(
    r"\.(csv|tsv|txt|jsonl?|parquet|arrow|feather|html?|zip|t?gz|bz2|xz|zst|7z|rar)$", re.IGNORECASE
)
"""Endings of files that are no tar shards; folders of an object store may have others."""


class RemoteShard(NamedTuple):
    """A remote tar file as it was listed: its address, size in bytes, and a mark of its content."""

    address: str
    size: int
    mark: str
    """The ETag, or the hash or time that the store has in its place."""

    @property
    def name(self) -> str:
        """The file name, by which the index names a shard."""
        return self.address.rsplit("/", 1)[1]


def refuse_secrets(address: str) -> None:
    """Refuse an address that holds credentials.

    Raises
    ------
    UserError
        If the address has a user, a password, a query or a fragment.
    """
    # A glob of one character is a question mark too, and no object store signs with so few.
    query = address.partition("?")[2]
    if (
        USER.match(address.split("://", 1)[1])
        or "=" in query
        or "#" in address
        or TOKEN.search(address)
    ):
        raise UserError(
            f"pairs: {redacted(address)} has a password, a token or a signature in it, which logs "
            "and results would keep. Give the bare address; credentials come from "
            f"{protocol_of(address).credentials}. Where only a signed address opens a shard, fetch "
            "it first (curl), and give its folder."
        )


def refuse_other_files(address: str) -> None:
    """Refuse an address of something else than tar shards, or folders of them.

    Raises
    ------
    UserError
        If its last part ends as a table or an archive does, or is no tar file of a web server, or
        if it names no bucket or host.
    """
    is_web = address.startswith(("http://", "https://"))
    for one in expand_braces(address):
        place, name = one.split("/", 3)[2], Path(one.rstrip("/")).name
        if not place or any(sign in place for sign in GLOB):
            raise UserError(
                f"pairs: {address} names no bucket or host. Write it as "
                f"{protocol_of(address).form}."
            )
        if _OTHER.search(name) or (is_web and not name.endswith(".tar")):
            raise UserError(
                f"pairs: {redacted(address)}: {name} is no tar shard, and nothing else is read "
                "from an address. Fetch it first (img2dataset, `hf download`, curl), and give its "
                "path."
            )


def list_shards(sources: Sequence[str]) -> list[RemoteShard]:
    """Return the tar files at addresses with globs, braces or folders, sorted by address.

    A folder of an object store is listed by one request for many objects. Web servers have no
    listings, so each of their files is asked for its size.

    Raises
    ------
    UserError
        If an address holds credentials, a library is missing, a bucket or a shard does not exist or
        may not be read, or two shards have the same file name.
    """
    listed: dict[str, RemoteShard] = {}
    for check in (refuse_secrets, refuse_other_files):
        for source in sources:
            check(source)
    for source in sources:
        for shard in _listed(source):
            if shard.address in listed:
                raise UserError(f"pairs: {shard.address} is named more than once. Name it once.")
            listed[shard.address] = shard
    by_name: dict[str, str] = {}
    for shard in listed.values():
        if shard.name in by_name:
            raise UserError(
                f"pairs: {by_name[shard.name]} and {shard.address} have the same file name, by "
                "which the index names a shard. Rename one of them."
            )
        by_name[shard.name] = shard.address
    return sorted(listed.values())


def keep_listing(corpus: str, sources: Sequence[str], shards: Mapping[str, RemoteShard]) -> None:
    """Store a listing, by the paths of copies, for the jobs of a run."""
    if SNAKEMAKE.is_dir():
        LISTINGS.mkdir(parents=True, exist_ok=True)
        content = {"sources": sorted(sources), "shards": shards}
        write_json(LISTINGS / f"{corpus}.json", content)


def kept_listing(corpus: str, sources: Sequence[str]) -> dict[str, RemoteShard]:
    """Return the stored listing of addresses; empty if there is none of them."""
    listing = _stored(corpus)
    return listing["shards"] if listing["sources"] == sorted(sources) else {}


def listed(path: Path) -> RemoteShard | None:
    """Return the remote shard for which a path stands, or None if its copy is there."""
    if path.parent.name != FOLDER:
        return None
    shard = _stored(path.parent.parent.name)["shards"].get(path.as_posix())
    is_copied = path.is_file() and (shard is None or _copied(path) == shard)
    return None if is_copied else shard


def keep_copy(
    shard: RemoteShard, path: Path, progress: Callable[[int], None] = lambda size: None
) -> None:
    """Write a copy that stays, and next to it which shard it is; see `fetch`."""
    path.with_suffix(".json").unlink(missing_ok=True)
    fetch(shard, path, progress)
    write_json(path.with_suffix(".json"), list(shard))


def _copied(path: Path) -> RemoteShard | None:
    """Return the shard that a copy was made of; the object may be another one by now."""
    try:
        return RemoteShard(*json.loads(path.with_suffix(".json").read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _stored(corpus: str) -> dict[str, Any]:
    try:
        content = json.loads((LISTINGS / f"{corpus}.json").read_text("utf-8"))
        shards = {path: RemoteShard(*one) for path, one in content["shards"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {"sources": None, "shards": {}}
    return {"sources": content["sources"], "shards": shards}


def fetch(
    shard: RemoteShard,
    path: Path,
    progress: Callable[[int], None] = lambda size: None,
    *,
    wait: Callable[[float], None] = time.sleep,
    chunk: int = CHUNK,
) -> None:
    """Write a remote shard to a file, and refuse it if it is not the one that was listed.

    A request that fails is repeated from the byte that it began at.

    Parameters
    ----------
    shard : RemoteShard
        As `list_shards` returned it.
    path : Path
        Written under a temporary name and renamed at the end.
    progress : callable
        Called with the number of bytes of each piece.
    wait : callable
        Sleeps for a number of seconds.
    chunk : int
        Bytes of a request.

    Raises
    ------
    UserError
        If the shard changed since it was listed, or cannot be read.
    """
    files = filesystem(shard.address)
    with replacing(path) as temporary, open(temporary, "wb") as written:
        _refuse_changed(files, shard, wait)
        for start in range(0, shard.size, chunk):
            end = min(start + chunk, shard.size)
            written.write(_read(files, shard, start, end, wait))
            progress(end - start)
        _refuse_changed(files, shard, wait)


def read_ranges(shard: RemoteShard, places: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    """Yield the bytes of a remote shard at each offset, of the given sizes; see `fetch`."""
    files = filesystem(shard.address)
    for offset, size in places:
        yield _read(files, shard, offset, offset + size, time.sleep)


def first_samples_of(shard: RemoteShard) -> FirstSamples:
    """Read the start of a remote shard."""
    start = io.BytesIO(next(read_ranges(shard, [(0, min(shard.size, START))])))
    return read_first_samples(start, goes_on=shard.size > START)


def _read(
    files: Any, shard: RemoteShard, start: int, end: int, wait: Callable[[float], None]
) -> bytes:
    # Files of a hub ask for their size and read ahead otherwise.
    is_of_hub = shard.address.startswith("hf://")
    options = {"size": shard.size, "cache_type": "none"} if is_of_hub else {}

    def read() -> bytes:
        data = files.cat_file(shard.address, start=start, end=end, **options)
        if len(data) > end - start:
            raise UserError(
                f"{shard.address}: the server sends {len(data)} bytes for a range of {end - start}."
                " Fetch the shards by other means, and give their folder under pairs."
            )
        if len(data) < end - start:
            raise ConnectionError(f"{len(data)} of {end - start} bytes")
        return bytes(data)

    return retried(read, shard.address, wait)


def _refuse_changed(files: Any, shard: RemoteShard, wait: Callable[[float], None]) -> None:
    # A hub answers this option with one request for the file, whatever list of its folder is kept.
    is_of_hub = shard.address.startswith("hf://")
    options = {"expand_info": True} if is_of_hub else {}

    def look() -> RemoteShard:
        if not is_of_hub:
            files.invalidate_cache()
        return _shard(shard.address, files.info(shard.address, **options))

    now = retried(look, shard.address, wait)
    if now != shard:
        raise UserError(
            f"{shard.address}: this shard changed since the run began, from {shard.size:,} bytes "
            f"({shard.mark}) to {now.size:,} ({now.mark}). Run the command again when nothing "
            "writes to it."
        )


def _listed(source: str) -> Iterator[RemoteShard]:
    files = filesystem(source)
    files.invalidate_cache()
    names = expand_braces(source)
    if source.startswith(("http://", "https://")):
        if any(sign in source for sign in GLOB):
            raise UserError(
                f"pairs: {source}: a web server has no list of its files, so a glob matches "
                "nothing. Give a range, such as {00000..00331}.tar."
            )
        for name in names:
            look = partial(files.info, name)
            yield _shard(name, retried(look, name))
        return
    entries: dict[str, dict[str, Any]] = {}
    for folder in {_folder(name) for name in names}:
        look = partial(files.ls, folder, detail=True)
        try:
            entries |= {one["name"]: one for one in retried(look, folder)}
        except NotADirectoryError:
            continue
    protocol = source.split("://")[0]
    every = {f"{protocol}://{name}": entry for name, entry in entries.items()}
    found = {path: entry for path, entry in every.items() if entry["type"] == "file"}
    for name in names:
        folder = name.rstrip("/")
        whole = [path for path in found if path.startswith(f"{folder}/") and path.endswith(".tar")]
        matched = [name] if name in found else whole or fnmatch.filter(found, name)
        matched = [path for path in matched if path.endswith(".tar")]
        if not matched:
            there = [path.rsplit("/", 1)[1] for path in every if path.startswith(_folder(name))]
            has = (
                f"has {count(len(there), 'entry', 'entries')}, such as {there[0]}" if there else ""
            )
            raise UserError(
                f"pairs: {name}: there is no such tar file. Its folder {has or 'is empty'}. Check "
                f"the address, and whether the credentials ({protocol_of(name).credentials}) may "
                "list it."
            )
        yield from (_shard(path, found[path]) for path in sorted(matched))


def _folder(address: str) -> str:
    """Return the folder above the first part of an address that has a sign of a glob."""
    head = re.split(r"[*?\[]", address, maxsplit=1)[0]
    is_folder = head == address and not head.endswith(".tar")
    return head.rstrip("/") if is_folder else head.rpartition("/")[0]


def _shard(address: str, entry: dict[str, Any]) -> RemoteShard:
    """Return what a store's entry of a file states; a missing size is an error."""
    size = entry.get("size")
    if size is None and entry.get("mimetype") == "text/html":
        raise UserError(
            f"pairs: {address}: the server sends a web page, perhaps to log in. Check the address, "
            f"and whether the credentials ({protocol_of(address).credentials}) may read it."
        )
    if size is None:
        raise UserError(
            f"pairs: {address}: the server does not give the size of the file. Fetch the shards by "
            "other means, and give their folder."
        )
    marks = ("ETag", "etag", "generation", "blob_id", "md5Hash", "LastModified", "Last-Modified")
    mark = next((str(entry[name]) for name in marks if entry.get(name)), NO_MARK)
    # Of several servers with the same files, some may compress answers, which weakens their ETags.
    return RemoteShard(address, int(size), mark.removeprefix("W/").strip('"'))
