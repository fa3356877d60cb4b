"""Decide, key by key, which samples of a shard are whole pairs."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from mispair.core.files import UserError
from mispair.pairs.captions.decoding import (
    SIDECAR_FIELDS,
    check_caption,
    decode_captions,
    describe_caption,
    sidecar_fields,
    sidecar_text,
    split_lines,
)
from mispair.pairs.index.faults import Fault, RejectedError
from mispair.pairs.index.image_list import (
    MAX_DETAIL,
    ImageList,
    content,
    list_images,
    readable,
    why_unopened,
)
from mispair.pairs.index.policy import Policy
from mispair.pairs.shards.shards import (
    BUFFER_BYTES,
    MAX_TEXT_BYTES,
    SIDECAR_EXTENSION,
    AdjacentMembers,
    Candidate,
    ShardReader,
    damaged_key,
    image_candidates,
    is_encodable,
    split_run,
)
from mispair.pairs.shards.tar_members import BrokenTarError, Member

RUNS_PER_LOOKUP = 256
MOST_CAPTIONS = 100
"""Captions of one picture; every pair takes as much memory as the one with the most."""

Lookup = Callable[[list[str]], dict[str, list[str]]]
"""From keys, or from other values that join a caption table to pairs, to the table's captions."""

JOIN_VALUE = "join_value"
"""Column of an index whose pairs are joined to a caption table by something other than the key."""


class TableCaptions(NamedTuple):
    """What a caption table has for the samples of some runs."""

    captions: dict[str, list[str]]
    """The captions by key, of samples that the table has."""
    values: dict[str, str]
    """By key, what the table is searched for; empty where that is the key."""


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


def caption_id(caption: str) -> str:
    """Return 16 hexadecimal digits that name a caption's text, the same in every shard."""
    return hashlib.sha256(caption.encode()).hexdigest()[:16]


def index_shard(
    shard: Path,
    policy: Policy,
    lookup: Lookup | None = None,
    alive: Callable[[], None] = lambda: None,
    images: ImageList | None = None,
) -> ShardIndex:
    """Read a shard and give each key its verdict; nothing in its content raises an error.

    Parameters
    ----------
    policy : Policy
        What is a pair.
    lookup : callable, optional
        Returns the captions that the user's table has for some keys, or for other values if
        `policy.join` is not the key. Needed if `policy.table` is not none.
    alive : callable
        Called at least once for each sample: as long as it is, the reader has not stalled.
    images : ImageList, optional
        The images of the shard; by default they are listed first, with the limits of the policy.

    Returns
    -------
    ShardIndex
        ``kept`` rows: key, shard, the columns of the image in the list, row (of the image in the
        list), caption, caption_id, more_captions, words, characters, person, non_ascii, control,
        url, status, sha256, licence, uid; ``join_value`` if `policy.join` is not the key; and
        `policy.json_fields`. ``rejected`` rows: key, shard, reason, detail. A key whose members are
        not adjacent is rejected in one row: a partial sample is never taken for a whole one. A
        damaged shard gives one row for all that could not be read, and so does a shard without a
        sample, and all from the first image that was not listed because the shard broke off then.

    Raises
    ------
    UserError
        If the shard is gone, or was changed after its images were listed: no pair of it is
        rejected for that.
    """
    if (lookup is None) != (policy.table == "none"):
        raise ValueError("a caption table is looked up if, and only if, the policy names one")
    try:
        # An error of the lookup or the heartbeat below must not be taken for one of the shard.
        opened = Path(shard).open("rb", buffering=BUFFER_BYTES)  # noqa: SIM115 (closed below)
    except OSError as error:
        damage = {"reason": Fault.DAMAGED_SHARD, "detail": why_unopened(error, shard)}
        return _sorted_out(shard.name, [("", damage)], ignored=0)
    if images is None:
        images = list_images(shard, policy, policy.max_member_bytes, alive)
    with opened:
        reader = ShardReader(opened)
        verdicts = list(_verdicts(reader, policy, lookup, alive, images))
    if not verdicts:
        others = f"; none of its {reader.ignored} members belongs to one" * bool(reader.ignored)
        detail = f"holds no sample{others or ', and no other file'}"
        verdicts = [("", {"reason": Fault.DAMAGED_SHARD, "detail": detail})]
    return _sorted_out(shard.name, verdicts, reader.ignored)


def _verdicts(
    reader: ShardReader,
    policy: Policy,
    lookup: Lookup | None,
    alive: Callable[[], None],
    images: ImageList,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each key as the tar has it, not necessarily writable as text, and its verdict."""
    extension = policy.caption_extension
    key = ""
    try:
        unread, size = reader.runs(), RUNS_PER_LOOKUP if lookup else 1
        while runs := list(islice(unread, size)):
            table = _look_up(runs, policy, lookup, reader) if lookup else TableCaptions({}, {})
            for run in runs:
                key = run.key
                alive()
                extra = image_candidates(run)[1]
                named = table.captions.keys() - extra
                for candidate in split_run(run, extension, named.__contains__):
                    if candidate.key in extra:  # has no listed image, whatever captions name
                        continue
                    key = candidate.key
                    alive()
                    yield key, _verdict(candidate, policy, table, reader, images)
                if run.damage:
                    key = damaged_key(run, extension)
                    yield key, {"reason": Fault.DAMAGED_SHARD, "detail": run.damage}
    except BrokenTarError as error:
        yield key, {"reason": Fault.DAMAGED_SHARD, "detail": str(error)}


def _look_up(
    runs: Iterable[AdjacentMembers], policy: Policy, lookup: Lookup, reader: ShardReader
) -> TableCaptions:
    """Look up all samples that the runs may hold."""
    samples = {
        sample.key: sample
        for run in runs
        for sample in split_run(run, policy.caption_extension, lambda key: True)
        if is_encodable(sample.key)
    }
    if policy.join_field is None:
        return TableCaptions(lookup(sorted(samples)), {})
    values = {}
    for key, sample in samples.items():
        if value := _join_value(sample, policy.join_field, reader):
            values[key] = value
    captions = lookup(sorted(set(values.values())))
    return TableCaptions({k: captions[v] for k, v in values.items() if v in captions}, values)


def _join_value(candidate: Candidate, field: str, reader: ShardReader) -> str | None:
    sidecar = candidate.of(SIDECAR_EXTENSION)
    if sidecar is None or sidecar.size > MAX_TEXT_BYTES:
        return None
    try:
        return sidecar_text(reader.read(sidecar), field)
    except BrokenTarError:  # the verdict on the sample meets the same fault and reports it
        return None


def _sorted_out(shard: str, verdicts: list[tuple[str, dict[str, Any]]], ignored: int) -> ShardIndex:
    times = Counter(key for key, _ in verdicts)
    index = ShardIndex(ignored=ignored)
    ambiguous = set()
    for key, verdict in verdicts:
        if times[key] > 1 and verdict.get("reason") != Fault.DAMAGED_SHARD:
            if key in ambiguous:
                continue
            ambiguous.add(key)
            verdict = {
                "reason": Fault.AMBIGUOUS_KEY,
                "detail": f"its members are in {times[key]} places of the shard: pack it in the "
                "order of names (tar --sort=name)",
            }
        row = {**verdict, "key": readable(key), "shard": shard}
        if "reason" in verdict:
            row["detail"] = readable(row["detail"])[:MAX_DETAIL]
            index.rejected.append(row)
        else:
            index.kept.append(row)
    return index


def _verdict(
    candidate: Candidate,
    policy: Policy,
    table: TableCaptions,
    reader: ShardReader,
    images: ImageList,
) -> dict[str, Any]:
    """Return the row of a pair, or its first fault."""
    try:
        member = _image_member(candidate)
        captions = _of_captions(candidate, policy, table, reader)
        return {**_image(member, images, reader), **captions}
    except RejectedError as error:
        return error.row()


def _image(member: Member, images: ImageList, reader: ShardReader) -> dict[str, Any]:
    """Return the columns of an image in the list of its shard and its row there.

    Raises
    ------
    RejectedError
        If it cannot be encoded.
    BrokenTarError
        If the shard broke off before the image was listed.
    UserError
        If the image is not listed although the shard was read to its end.
    """
    offset = member.offset
    if offset in images.usable:
        return {**images.usable[offset], "row": images.rows[offset]}
    if offset in images.faults:
        reason, detail = images.faults[offset]
        raise RejectedError(Fault(reason), detail)
    if images.damage:
        raise BrokenTarError(images.damage[1])
    raise UserError(
        f"{reader.opened.name}: {member.name!r} is not in the list of its images, so the shard was "
        "changed after they were listed. Run the command again."
    )


def _image_member(candidate: Candidate) -> Member:
    if not is_encodable(candidate.key):
        raise RejectedError(Fault.UNDECODABLE_KEY, "the name is not UTF-8")
    if candidate.ambiguity:
        raise RejectedError(Fault.AMBIGUOUS_KEY, candidate.ambiguity)
    if candidate.image is None:
        raise RejectedError(Fault.NO_IMAGE, str(candidate))
    return candidate.image


def _of_captions(
    candidate: Candidate, policy: Policy, table: TableCaptions, reader: ShardReader
) -> dict[str, Any]:
    """Return what the row of a pair has besides its image, or raise its first fault."""
    captions = _captions(candidate, policy, table, reader)
    return {
        "caption": captions[0],
        "caption_id": caption_id(captions[0]),
        "more_captions": captions[1:],
        **describe_caption(captions[0]),
        **_sidecar(candidate.of(SIDECAR_EXTENSION), policy, reader),
        **({JOIN_VALUE: table.values.get(candidate.key)} if policy.join_field else {}),
    }


def _captions(
    candidate: Candidate, policy: Policy, table: TableCaptions, reader: ShardReader
) -> list[str]:
    """Return the distinct usable captions, at least one, or raise the first one's fault."""
    usable: dict[str, None] = {}
    faults: list[RejectedError] = []
    texts = table.captions.get(candidate.key, [])
    if policy.table != "replace":
        try:
            texts = [*_own_captions(candidate, policy, reader), *texts]
        except RejectedError as error:
            faults.append(error)
    if policy.captions_per_line:
        texts = [line for text in texts for line in split_lines(text)]
    for text in texts:
        try:
            usable[check_caption(text, policy)] = None
        except RejectedError as error:
            faults.append(error)
    if len(usable) > MOST_CAPTIONS:
        raise RejectedError(
            Fault.CAPTION_LENGTH, f"{len(usable)} captions, more than {MOST_CAPTIONS}"
        )
    if not usable:
        raise (
            faults[0]
            if faults
            else RejectedError(Fault.NOT_IN_TABLE, _not_in_table(candidate, policy, table))
        )
    return list(usable)


def _not_in_table(candidate: Candidate, policy: Policy, table: TableCaptions) -> str:
    if policy.join_field is None:
        return "the table has no such key"
    value = table.values.get(candidate.key)
    if value is None:
        return f"its json has no text in {policy.join_field!r}"
    return f"the table has no row with {policy.join_field} {value!r}"


def _own_captions(candidate: Candidate, policy: Policy, reader: ShardReader) -> list[str]:
    if candidate.caption is None:
        raise RejectedError(Fault.NO_CAPTION, str(candidate))
    encoded = content(candidate.caption, policy.max_caption_bytes, reader)
    return decode_captions(encoded, policy.caption_field)


def _sidecar(member: Member | None, policy: Policy, reader: ShardReader) -> dict[str, str | None]:
    if member is None or member.size > MAX_TEXT_BYTES:
        return dict.fromkeys((*SIDECAR_FIELDS, *policy.json_fields))
    encoded = reader.read(member)
    further = {
        name: sidecar_text(encoded, name.removeprefix("json:")) for name in policy.json_fields
    }
    return sidecar_fields(encoded) | further
