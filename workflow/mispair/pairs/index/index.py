"""Decide, key by key, which samples of a shard are whole pairs."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from mispair.pairs.captions.captions import (
    SIDECAR_FIELDS,
    CaptionError,
    check_caption,
    decode_caption,
    describe_caption,
    is_encodable,
    sidecar_fields,
)
from mispair.pairs.index.policy import (
    AMBIGUOUS_KEY,
    DAMAGED_SHARD,
    EXTREME_SHAPE,
    MEMBER_TOO_LARGE,
    NO_CAPTION,
    NO_IMAGE,
    NOT_IN_TABLE,
    TOO_MANY_PIXELS,
    TOO_SMALL_IMAGE,
    UNDECODABLE_IMAGE,
    UNDECODABLE_KEY,
    Policy,
)
from mispair.pairs.shards.images import (
    ExtremeShapeError,
    TooManyPixelsError,
    UndecodableImageError,
    image_size,
)
from mispair.pairs.shards.shards import (
    BUFFER_BYTES,
    MAX_TEXT_BYTES,
    SIDECAR_EXTENSION,
    Candidate,
    Run,
    ShardReader,
    damaged_key,
    split_run,
)
from mispair.pairs.shards.tar_members import BrokenTarError, Member

MAX_DETAIL = 300
RUNS_PER_LOOKUP = 256

Lookup = Callable[[list[str]], dict[str, list[str]]]


@dataclass
class ShardIndex:
    """What one shard holds: ``kept`` and ``rejected`` rows; together every key that was read."""

    kept: list[dict[str, Any]] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    ignored: int = 0
    """Members that belong to no sample."""

    @property
    def read(self) -> int:
        """Number of samples seen."""
        return len(self.kept) + len(self.rejected)


class _RejectedError(Exception):
    def __init__(self, reason: str, detail: str):
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def caption_id(caption: str) -> str:
    """Return 16 hexadecimal digits that name a caption's text, the same in every shard."""
    return hashlib.sha256(caption.encode()).hexdigest()[:16]


def image_id(encoded: bytes) -> str:
    """Return 16 hexadecimal digits that name an image's file content."""
    return hashlib.sha256(encoded).hexdigest()[:16]


def index_shard(
    shard: Path,
    policy: Policy,
    lookup: Lookup | None = None,
    alive: Callable[[], None] = lambda: None,
) -> ShardIndex:
    """Read a shard and give each key its verdict; nothing in its content raises an error.

    Parameters
    ----------
    shard : Path
        A tar file.
    policy : Policy
        What is a pair.
    lookup : callable, optional
        Returns the captions that the user's table has for some keys, which `policy.table` asks for.
    alive : callable
        Called at least once for each sample: as long as it is, the reader has not stalled.

    Returns
    -------
    ShardIndex
        ``kept`` rows: key, shard, image_offset and image_bytes (where the image is in the file),
        image_id, caption, caption_id, more_captions, width and height (pixels, as a viewer shows
        it), words, characters, person, non_ascii, control, url, status, sha256.
        ``rejected`` rows: key, shard, reason, detail. A key whose members do not stand together
        is rejected, in one row: no half sample is ever taken for a whole one. A damaged shard
        gives one row for all that could not be read, and so does a shard without a sample.
    """
    if (lookup is None) != (policy.table == "none"):
        raise ValueError("a caption table is looked up if, and only if, the policy names one")
    try:
        # An error of the lookup or the heartbeat below must not pass for one of the shard.
        opened = Path(shard).open("rb", buffering=BUFFER_BYTES)  # noqa: SIM115 (closed below)
    except OSError as error:
        damage = {"reason": DAMAGED_SHARD, "detail": f"cannot be opened: {error.strerror}"}
        return _sorted_out(shard.name, [("", damage)], ignored=0)
    with opened:
        reader = ShardReader(opened)
        verdicts = list(_verdicts(reader, policy, lookup, alive))
    if not verdicts:
        detail = f"holds no sample, and {reader.ignored} members that belong to none"
        verdicts = [("", {"reason": DAMAGED_SHARD, "detail": detail})]
    return _sorted_out(shard.name, verdicts, reader.ignored)


def _verdicts(
    reader: ShardReader, policy: Policy, lookup: Lookup | None, alive: Callable[[], None]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each key as the tar has it, not necessarily writable as text, and its verdict."""
    extension = policy.caption_extension
    key = ""
    try:
        for runs in _batches(reader.runs(), RUNS_PER_LOOKUP if lookup else 1):
            table = _look_up(runs, extension, lookup) if lookup else {}
            for run in runs:
                key = run.key
                alive()
                for candidate in split_run(run, extension, table.__contains__):
                    key = candidate.key
                    alive()
                    yield key, _verdict(candidate, policy, table, reader)
                if run.damage:
                    key = damaged_key(run, extension)
                    yield key, {"reason": DAMAGED_SHARD, "detail": run.damage}
    except BrokenTarError as error:
        yield key, {"reason": DAMAGED_SHARD, "detail": str(error)}


def _batches(runs: Iterator[Run], size: int) -> Iterator[list[Run]]:
    while batch := list(islice(runs, size)):
        yield batch


def _look_up(runs: Iterable[Run], extension: str, lookup: Lookup) -> dict[str, list[str]]:
    keys = {c.key for run in runs for c in split_run(run, extension, lambda key: True)}
    return lookup(sorted(filter(is_encodable, keys)))


def _sorted_out(shard: str, verdicts: list[tuple[str, dict[str, Any]]], ignored: int) -> ShardIndex:
    times = Counter(key for key, _ in verdicts)
    index = ShardIndex(ignored=ignored)
    ambiguous = set()
    for key, verdict in verdicts:
        if times[key] > 1 and verdict.get("reason") != DAMAGED_SHARD:
            if key in ambiguous:
                continue
            ambiguous.add(key)
            verdict = {
                "reason": AMBIGUOUS_KEY,
                "detail": f"its members are in {times[key]} places of the shard: pack it in the "
                "order of names (tar --sort=name)",
            }
        row = {"key": _readable(key), "shard": shard, **verdict}
        if "reason" in verdict:
            row["detail"] = _readable(row["detail"])[:MAX_DETAIL]
            index.rejected.append(row)
        else:
            index.kept.append(row)
    return index


def _readable(text: str) -> str:
    """Return the text with bytes that are not UTF-8 spelled out: Parquet holds characters only."""
    return text.encode("utf-8", "backslashreplace").decode()


def _verdict(
    candidate: Candidate, policy: Policy, table: dict[str, list[str]], reader: ShardReader
) -> dict[str, Any]:
    try:
        return _pair(candidate, policy, table, reader)
    except (_RejectedError, CaptionError) as error:
        return {"reason": error.reason, "detail": error.detail}
    except TooManyPixelsError as error:
        return {"reason": TOO_MANY_PIXELS, "detail": str(error)}
    except ExtremeShapeError as error:
        return {"reason": EXTREME_SHAPE, "detail": str(error)}
    except UndecodableImageError as error:
        return {"reason": UNDECODABLE_IMAGE, "detail": str(error)}


def _pair(
    candidate: Candidate, policy: Policy, table: dict[str, list[str]], reader: ShardReader
) -> dict[str, Any]:
    """Return the row of a pair, or raise the first thing that is wrong with it."""
    if not is_encodable(candidate.key):
        raise _RejectedError(UNDECODABLE_KEY, "the name is not UTF-8")
    if candidate.ambiguity:
        raise _RejectedError(AMBIGUOUS_KEY, candidate.ambiguity)
    image = candidate.image
    if image is None:
        raise _RejectedError(NO_IMAGE, str(candidate))
    captions = _captions(candidate, policy, table, reader)
    encoded = _content(image, policy.max_member_bytes, reader)
    width, height = image_size(encoded, policy.max_pixels, policy.max_ratio)
    if min(width, height) < policy.min_side:
        raise _RejectedError(
            TOO_SMALL_IMAGE, f"{width} x {height} pixels, a side is below {policy.min_side}"
        )
    return {
        "image_offset": image.offset,
        "image_bytes": image.size,
        "image_id": image_id(encoded),
        "caption": captions[0],
        "caption_id": caption_id(captions[0]),
        "more_captions": captions[1:],
        "width": width,
        "height": height,
        **describe_caption(captions[0]),
        **_sidecar(candidate.of(SIDECAR_EXTENSION), reader),
    }


def _content(member: Member, limit: int, reader: ShardReader) -> bytes:
    if member.size > limit:
        raise _RejectedError(
            MEMBER_TOO_LARGE, f"{member.name}: {member.size} bytes are over the limit of {limit}"
        )
    return reader.read(member)


def _captions(
    candidate: Candidate, policy: Policy, table: dict[str, list[str]], reader: ShardReader
) -> list[str]:
    """Return the distinct usable captions, at least one, or raise the first one's fault."""
    usable: dict[str, None] = {}
    faults: list[CaptionError | _RejectedError] = []
    if policy.table != "replace":
        try:
            usable[check_caption(_own_caption(candidate, policy, reader), policy)] = None
        except (CaptionError, _RejectedError) as error:
            faults.append(error)
    for text in table.get(candidate.key, []):
        try:
            usable[check_caption(text, policy)] = None
        except CaptionError as error:
            faults.append(error)
    if not usable:
        raise faults[0] if faults else CaptionError(NOT_IN_TABLE, "the table has no such key")
    return list(usable)


def _own_caption(candidate: Candidate, policy: Policy, reader: ShardReader) -> str:
    if candidate.caption is None:
        raise CaptionError(NO_CAPTION, str(candidate))
    content = _content(candidate.caption, policy.max_caption_bytes, reader)
    return decode_caption(content, policy.caption_field)


def _sidecar(member: Member | None, reader: ShardReader) -> dict[str, str | None]:
    if member is None or member.size > MAX_TEXT_BYTES:
        return dict.fromkeys(SIDECAR_FIELDS)
    return sidecar_fields(reader.read(member))
