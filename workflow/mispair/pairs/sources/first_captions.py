"""Some captions and pictures of a source, read before any job."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from math import sqrt
from pathlib import Path
from typing import Any

from mispair.core.files import UserError
from mispair.pairs.captions.decoding import decode_captions, split_lines
from mispair.pairs.captions.scripts import is_blank
from mispair.pairs.index.faults import Fault, RejectedError
from mispair.pairs.index.policy import MOST_UNDECIDED, Policy
from mispair.pairs.shards.first_samples import SAMPLES, first_samples
from mispair.pairs.shards.shards import (
    CAPTION_EXTENSION,
    MAX_MEMBER_BYTES,
    MAX_TEXT_BYTES,
    ShardReader,
)
from mispair.pairs.shards.tar_members import BrokenTarError
from mispair.pairs.sources.columns import Columns, are_names
from mispair.pairs.sources.source import Entry, Source, links_out
from mispair.pairs.sources.table_rows import columns_to_read, ending_of, flat

READ = 1000
"""Files whose captions are read, evenly; of tar shards, the first `SAMPLES` samples of each."""
LISTED = 100_000
"""Captions that are compared, evenly, of a table, which is read already."""
NO_ENTRY = Entry("")
_OBJECT = re.compile(r"""\s*\[?\s*\{\s*(["'])[^"']+\1\s*:.*\}\s*\]?\s*$""", re.DOTALL)
"""An object, or a list of objects, in the notation of JSON or Python."""
LEAST = 20
"""Captions from which on nothing but labels is refused."""


def refuse_labels_and_lines(
    place: str, captions: Sequence[str], are_lines_decided: bool, are_all: bool
) -> None:
    """Refuse captions without a letter, names of files, equal ones, objects, or undecided lines.

    `place` is where they are, for a message. Unless these are all captions, those of several lines
    must be more than chance gives a sample of a corpus with `MOST_UNDECIDED` of them, by 4 standard
    deviations: a job counts all.

    Raises
    ------
    UserError
        With one of them.
    """
    seen = [text for text in captions if not is_blank(text)]
    has_letters = any(map(str.isalpha, "".join(seen)))
    if len(captions) >= LEAST and (not has_letters or are_names(seen)):
        example = next(iter(seen), "")
        lacks = "is more than the name of a file" if has_letters else "has a letter"
        what = f"such as {example[:80]!r}" if example else "all empty"
        raise UserError(
            f"{place}: no caption {lacks}, by {len(captions)} of them, {what}. Name where "
            "captions are: another column, pairs: {path: ..., captions: TABLE}, or "
            "index_shards.caption_from for shards."
        )
    if are_all and len(captions) >= LEAST and len({*map(str.strip, captions)}) == 1:
        raise UserError(
            f"{place}: all {len(captions):,} captions are {captions[0].strip()[:80]!r}, so none is "
            "nearer to its picture than another. Name where captions are: another column, pairs: "
            "{path: ..., captions: TABLE}, or index_shards.caption_from for shards."
        )
    objects = [*filter(_OBJECT.match, captions)]
    if 2 * len(objects) > len(captions):
        raise UserError(
            f"{place}: {len(objects)} of {len(captions)} captions are objects of JSON, such as "
            f"{' '.join(objects[0].split())[:80]!r}. Write the text of each alone, or give each "
            "file with one object the name of its picture and .json: a field of it is read."
        )
    several = [text for text in captions if len(split_lines(text.strip())) > 1]
    expected = MOST_UNDECIDED * len(captions)
    chance = 4 * sqrt(expected * (1 - MOST_UNDECIDED)) * (not are_all)
    if not are_lines_decided and len(several) > expected + chance:
        raise UserError(
            f"{place}: {len(several)} of {len(captions)} captions have several lines, such as "
            f"{several[0][:80]!r}. Set index_shards.captions_per_line to true if each line is a "
            "caption of its own, or to false if the lines are one text, as by --config "
            '"index_shards={captions_per_line: true}".'
        )


def captions_of(source: Source, limit: float = 1) -> list[str]:
    """Return some captions of a source that is packed, as far as they can be read.

    Raises
    ------
    UserError
        If a larger share than `limit` cannot be used, by more than chance, or none can.
    """
    if source.columns:
        return _of_parquet(Path(source.entries[0].pictures[0]), Columns(*source.columns), limit)
    policy = Policy(caption_from=source.captions_in)
    most = READ if source.entries[0].captions is None else LISTED
    chosen = source.entries[:: -(-len(source.entries) // most)]
    faults: list[RejectedError] = []
    texts = [text for entry in chosen for text in _of_entry(entry, policy, source.boundary, faults)]
    return _unless_unusable(texts, faults, limit, len(chosen) == len(source.entries))


def have_same_captions(sources: Sequence[Source]) -> bool:
    """Return whether each picture has the same captions in all sources, and one has any.

    They are compared picture by picture, in any order, as far as they can be read.
    """
    policies = [Policy(caption_from=source.captions_in) for source in sources]
    entries = [
        {os.path.abspath(entry.pictures[0]): entry for entry in source.entries if entry.pictures}
        for source in sources
    ]

    def captions(number: int, picture: str) -> list[str]:
        entry, policy = entries[number].get(picture, NO_ENTRY), policies[number]
        texts = _of_entry(entry, policy, sources[number].boundary, [], most=None)
        return sorted(filter(None, map(str.strip, texts)))

    have_any = False
    for picture in set().union(*entries):
        first, *others = (captions(number, picture) for number in range(len(sources)))
        if any(one != first for one in others):
            return False
        have_any = have_any or bool(first)
    return have_any


def lost_pairs(source: Source, policy: Policy, has_captions: bool) -> dict[str, list[str]]:
    """Return the keys of pairs that a source lists without a picture or a caption, by what lacks.

    `has_captions` is true if they have captions elsewhere, too.
    """
    boundary = source.boundary
    linked = f"picture but a link out of {boundary}"
    several = "picture of its own, but several of one name"
    lost: dict[str, list[str]] = {"picture": [], linked: [], several: [], "caption": []}
    keeps_empty, is_in_json = policy.empty_captions == "keep", policy.caption_field is not None
    for entry in source.entries if not source.columns else ():
        texts = [text for text in entry.captions or () if keeps_empty or text.strip()]
        files = _captions_in(entry, is_in_json)
        texts += [text for text in files if keeps_empty or _has_bytes(text)]
        if not any(map(_has_bytes, entry.pictures)):
            lost["picture"].append(entry.key)
        elif boundary is not None and all(links_out(one, boundary) for one in entry.pictures):
            lost[linked].append(entry.key)
        elif len(entry.pictures) > 1:
            lost[several].append(entry.key)
        elif not (has_captions or texts):
            lost["caption"].append(entry.key)
    return lost


def _has_bytes(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0
    except OSError:
        return False


def _captions_in(entry: Entry, is_in_json: bool) -> list[str]:
    """Return the files of captions of a pair, and not those that describe it."""
    return [text for text in entry.texts if (ending_of(text) == "json") == is_in_json]


def _unless_unusable(
    texts: list[str], faults: Sequence[RejectedError], limit: float, are_all: bool
) -> list[str]:
    """Return texts; raise a UserError if too many captions are no texts, by more than chance."""
    number = len(texts) + len(faults)
    chance = 0 if are_all else 4 * sqrt(limit * (1 - limit) * number)
    if faults and (not texts or len(faults) > limit * number + chance):
        some = f"{len(faults)} of {number}" if texts else f"none of {number}"
        more = f', or allow more than {100 * limit:g} %, as by --config "gather_index='
        more += '{max_quarantined_share: 1}"'
        remedy = "Correct them (texts in UTF-8, as by iconv; JSON with a caption"
        remedy += "; a picture and a caption for each key)"
        if faults[0].reason == Fault.AMBIGUOUS_KEY:
            remedy = "Write one picture and one caption for each key, and pack the shards again; "
            remedy += "tar -xf leaves the last of several members of one name"
        raise UserError(
            f"pairs: {some} captions that were read can{'not' * bool(texts)} be used: "
            f"{faults[0].detail}. {remedy}{more * bool(texts)}."
        )
    return texts


def _decoded(
    where: str,
    content: bytes,
    policy: Policy,
    faults: list[RejectedError],
    most: int | None = 1,
) -> list[str]:
    """Return the first captions of a file, or add why it has none to `faults`."""
    try:
        return decode_captions(content, policy.caption_field)[:most]
    except RejectedError as error:
        faults.append(RejectedError(error.reason, f"{where}: {error.detail}"))
        return []


def _of_entry(
    entry: Entry,
    policy: Policy,
    boundary: Path | None,
    faults: list[RejectedError],
    most: int | None = 1,
) -> Iterator[str]:
    """Yield the captions of a pair, at most some of each file."""
    yield from (entry.captions or ())[:most]
    files = _captions_in(entry, is_in_json=policy.caption_field is not None)
    inside = (text for text in files if boundary is None or not links_out(text, boundary))
    for path in map(Path, inside):
        with suppress(OSError):
            if path.is_file() and path.stat().st_size <= MAX_TEXT_BYTES:
                yield from _decoded(str(path), path.read_bytes(), policy, faults, most)


def _of_parquet(path: Path, columns: Columns, limit: float) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    cells: list[Any] = []
    with suppress(OSError, pa.ArrowException), pq.ParquetFile(path) as opened:
        wanted = columns_to_read(path, [columns.caption])
        for batch in islice(opened.iter_batches(READ, columns=wanted), 1):
            cells = [row.get(columns.caption) for row in map(flat, batch.to_pylist())]
    lists = (cell if isinstance(cell, list) else [cell] for cell in cells)
    texts = [text for cell in lists for text in [one for one in cell if isinstance(one, str)][:1]]
    if other := [cell for cell in cells if cell] if not texts else []:
        fields = [
            f"{columns.caption}.{name}"
            for one in (other[0] if isinstance(other[0], list) else other)[:1]
            if isinstance(one, dict)
            for name in one
        ]
        raise UserError(
            f"pairs.caption_column: {path} has no text in its column {columns.caption!r}, only "
            f"{other[0]!r:.80} and the like. Name {' or '.join([*fields[:3], 'another column'])}."
        )
    nulls = [n for n, cell in enumerate(cells, 1) if cell in (None, [])] if limit < 1 else []
    no_caption = f"has no caption in its column {columns.caption!r}"
    faults = [RejectedError(Fault.NO_CAPTION, f"{path}: row {n} {no_caption}") for n in nulls]
    return _unless_unusable(texts, faults, limit, are_all=False)


def captions_of_shards(shards: Iterable[str], caption_from: str, limit: float = 1) -> list[str]:
    """Return the captions of the first samples of shards, as `captions_of`."""
    policy, faults = Policy(caption_from=caption_from), list[RejectedError]()
    texts: list[str] = []
    for shard, start in ((shard, first_samples(shard)) for shard in shards):
        for _, sample in start.candidates(policy.caption_extension):
            if sample.ambiguity:
                detail = f"{shard}: {sample.key} {sample.ambiguity}"
                faults.append(RejectedError(Fault.AMBIGUOUS_KEY, detail))
            elif sample.image and sample.caption and sample.caption in start.texts:
                where, content = f"{shard}: {sample.caption.name}", start.texts[sample.caption]
                texts += _decoded(where, content, policy, faults)
            elif (sample.image is None) != (sample.caption is None):
                lacks, reason = f"caption (.{policy.caption_extension})", Fault.NO_CAPTION
                if sample.caption:
                    lacks, reason = "picture", Fault.NO_IMAGE
                detail = f"{shard}: {sample.key} has no {lacks} next to it"
                faults.append(RejectedError(reason, detail))
    return _unless_unusable(texts, faults, limit, are_all=False)


def pictures_of(source: Source) -> Iterator[tuple[str, bytes]]:
    """Yield some pictures of a source that is packed, with the path and the key of each."""
    if source.columns:
        from mispair.pairs.sources.parquet import samples

        entry = source.entries[0]
        first = islice(samples(entry, Columns(*source.columns)), SAMPLES)
        yield from (
            (f"{entry.pictures[0]}: {key}", picture or b"") for key, _, picture, _, _ in first
        )
        return
    for entry in source.entries[:: -(-len(source.entries) // SAMPLES)]:
        for path in map(Path, entry.pictures):
            with suppress(OSError):
                if path.is_file() and path.stat().st_size <= MAX_MEMBER_BYTES:
                    yield str(path), path.read_bytes()


def pictures_of_shards(shards: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the pictures of the first samples of shards, with the shard and the name of each."""
    for shard in shards:
        samples = [one for _, one in first_samples(shard).candidates(CAPTION_EXTENSION)]
        with suppress(OSError, BrokenTarError), Path(shard).open("rb") as opened:
            for image in (sample.image for sample in samples):
                if image and image.size <= MAX_MEMBER_BYTES:
                    yield f"{shard}: {image.name}", ShardReader(opened).read(image)
