"""Where tar shards that are read in place have their captions, by their first samples."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from mispair.core.files import UserError
from mispair.pairs.captions.decoding import (
    LICENCE_NAMES,
    SIDECAR_FIELDS,
    fault_of_json,
    numbered,
    parse_json,
    read_json,
    text_fields,
)
from mispair.pairs.shards.first_samples import SAMPLES, FirstSamples, first_samples
from mispair.pairs.shards.shards import (
    CAPTION_EXTENSION,
    IMAGE_EXTENSIONS,
    SIDECAR_EXTENSION,
    AdjacentMembers,
    Candidate,
    split_name,
)
from mispair.pairs.shards.tar_members import Member
from mispair.pairs.sources.columns import CAPTION_COLUMNS, named_column
from mispair.pairs.sources.source import TEXT_ENDINGS
from mispair.pairs.sources.table_rows import ending_of

PROBED = 16
"""Shards that are read before any job, at most."""
PICTURES = ""
"""Under which first pictures are counted, next to the places of their captions."""
NO_CAPTIONS = (*SIDECAR_FIELDS, *LICENCE_NAMES, "key")
"""Fields of JSON that are never suggested as captions."""
WHOLE = "json:"
"""Place of captions that are a JSON list; `index_shards.caption_from` names it `json`."""


def probed(shards: Sequence[str]) -> Sequence[str]:
    """Return at most `PROBED` of some shards, evenly."""
    return shards[:: -(-len(shards) // PROBED)] if shards else []


def captions_in_shards(
    shards: Mapping[str, FirstSamples], given: str = CAPTION_EXTENSION, is_needed: bool = True
) -> str:
    """Return where samples have their captions, as ``index_shards.caption_from`` says it.

    Without a setting that is the first place that most of the first pictures of all shards have: an
    ending of `TEXT_ENDINGS`, the only one with dots that ends so (``llava.txt``), a field of the
    JSON with a usual name of captions, or JSON that is a list of texts. Shards of which nothing can
    be read decide nothing.

    Raises
    ------
    UserError
        If captions are needed, and the first samples have no picture, none of these, or not the
        ending that is given; or if shards have them in different places.
    """
    given = given.lower().lstrip(".")
    counts = {shard: _counted(start, given) for shard, start in shards.items()}
    every = sum(counts.values(), Counter[str]())
    places = [given]
    if given == CAPTION_EXTENSION:
        dotted = [one for one in every if "." in one and ending_of(one) in TEXT_ENDINGS]
        fields = [
            one.removeprefix(WHOLE) for one in every if one.startswith(WHOLE) and one != WHOLE
        ]
        field = named_column(fields, "", "caption_column", CAPTION_COLUMNS)
        places = [*TEXT_ENDINGS, *(dotted if len(dotted) == 1 else ()),
                  *([f"{WHOLE}{field}"] if field else ()), WHOLE]  # fmt: skip
    usable = {shard: found for shard, one in counts.items() if (found := _usable(one, places))}
    common = [place for place in places if all(place in found for found in usable.values())]
    if usable and common:
        return SIDECAR_EXTENSION if common[0] == WHOLE else common[0]
    if is_needed and usable:
        (first, one), (second, other) = next(
            ((first, one), (second, other))
            for first, one in usable.items()
            for second, other in usable.items()
            if one[0] != other[0]
        )
        raise UserError(
            f"index_shards.caption_from: {first} has its captions in {one[0]}, and {second} in "
            f"{other[0]}. Write them in one place in all shards, or name shards of one kind."
        )
    if is_needed and shards:
        first = next((one for one in shards if counts[one][PICTURES]), next(iter(shards)))
        _refuse(first, shards[first], given, every)
    return given


def _is_text(ending: str, start: FirstSamples) -> bool:
    """Return whether members of an ending are texts, and no pickles or compressed ones."""
    of = [text for one, text in start.texts.items() if one.name.lower().endswith(f".{ending}")]
    try:
        return any(text.decode().isprintable() or b"\n" in text for text in of)
    except UnicodeDecodeError:
        return False


def _usable(counts: Mapping[str, int], places: Sequence[str]) -> list[str]:
    """Return the places that half of the pictures have, or else that any has."""
    most = [one for one in places if counts[PICTURES] and 2 * counts[one] >= counts[PICTURES]]
    return most or [one for one in places if counts[one]]


def _counted(start: FirstSamples, extension: str) -> Counter[str]:
    """Count the first pictures of a shard, and the places next to them that have something."""
    counts: Counter[str] = Counter()
    for run, sample in start.candidates(extension, has_table=True):
        if sample.image:
            counts.update(dict.fromkeys((PICTURES, *_places(sample, run, start.texts)), 1))
    return counts


def _places(
    sample: Candidate, run: AdjacentMembers, texts: Mapping[Member, bytes]
) -> Iterator[str]:
    """Yield what is next to a picture: endings, also with dots, and fields of JSON with texts."""
    yield from (ending for ending, member in sample.members if member.size)
    start = f"{sample.key}."
    yield from (
        member.name[len(start) :].lower()
        for member in run.members
        if member.size and member.name.startswith(start)
    )
    sidecar = sample.of(SIDECAR_EXTENSION)
    if sidecar is None or sidecar not in texts:
        return
    with suppress(ValueError):
        content = read_json(texts[sidecar].decode("utf-8-sig"))
        fields = text_fields(content)
        yield from (f"{WHOLE}{field}" for field in (*fields, *numbered(fields)))
        if isinstance(content, list) and content and all(isinstance(one, str) for one in content):
            yield WHOLE


def _null_captions(content: bytes) -> list[str]:
    """Return the usual names of captions that are null in a JSON object."""
    with suppress(ValueError):
        return [name for name, cell in parse_json(content).items()
                if cell is None and name.lower() in CAPTION_COLUMNS]  # fmt: skip
    return []


def _refuse(shard: str, start: FirstSamples, given: str, counts: Mapping[str, int]) -> None:
    """Refuse a shard without captions, with what is next to its pictures or elsewhere in it."""
    whole = first_samples(shard, is_whole=True, names_only=True).runs
    runs = whole or start.runs  # of a remote shard only the start is on this machine
    sizes = {member.name: member.size for run in runs for member in run.members}
    names = [*sizes]
    if not names:
        return
    first = f"index_shards.caption_from: the first samples of {shard} have"
    endings = sorted({f".{split_name(name)[1]}" for name in names[: 4 * SAMPLES]})
    pictures = [name for name in names if ending_of(name) in IMAGE_EXTENSIONS]
    if not pictures:
        raise UserError(
            f"{first} no picture, only {', '.join(endings)}. Name other shards, or write pictures "
            "under the names of their captions with an ending of pictures, such as KEY.jpg."
        )
    wanted = (*TEXT_ENDINGS, SIDECAR_EXTENSION) if given == CAPTION_EXTENSION else (given,)
    near = [one for one in counts if one != PICTURES and not one.startswith(WHOLE)]
    far = [name for name in names if name.lower().endswith(tuple(f".{one}" for one in wanted))]
    if far and not any(sizes[name] for name in far):
        raise UserError(
            f"{first} empty captions, such as {far[0]!r}. Write them there, or name where captions "
            'are, as by --config "index_shards={caption_from: json:FIELD}".'
        )
    if far and not any(f".{one}".endswith(f".{ending}") for one in near for ending in wanted):
        pictured = {name.rpartition(".")[0]: name for name in pictures}
        stems = ((name.rpartition(".")[0], name) for name in far)
        if apart := next(((pictured[stem], name) for stem, name in stems if stem in pictured), ()):
            raise UserError(
                f"{first} other members between a picture and its caption, such as between "
                f"{' and '.join(map(repr, apart))}: a shard has the members of a "
                "pair one after another. Unpack the shards and pack them sorted by name (GNU's "
                "tar --sort=name), or give the folder that they were unpacked into as pairs."
            )
        raise UserError(
            f"{first} captions of other names than their pictures, or not next to them, such as "
            f"{far[0]!r} and {pictures[0]!r}. Pack the members of a pair one after another under "
            "one name, such as 1.jpg and 1.txt, or unpack the shards (tar -xf) and give the folder "
            "as pairs, which finds names that are alike."
        )
    fields = [one for one in counts if one.startswith(WHOLE) and one != WHOLE]
    no_text = (*IMAGE_EXTENSIONS, SIDECAR_EXTENSION, "cls")
    named = [one for one in fields if re.split("[:.]", one)[-1] not in NO_CAPTIONS]
    texts = [one for one in near if ending_of(f".{one}") not in no_text and _is_text(one, start)]
    inside = ", ".join(one.removeprefix(WHOLE) for one in fields[:12])
    inside = f" with the texts {inside}" * bool(fields)
    objects = [text for one, text in start.texts.items() if one.name.endswith(".json")]
    faults = [] if fields else [*filter(None, map(fault_of_json, objects))]
    inside += f", and JSON that {faults[0]}" if faults else ""
    if nulls := [name for text in objects for name in _null_captions(text)]:
        inside += f", and JSON in which {nulls[0]!r} is null"
    raise UserError(
        f"{first} no .{given}, only {', '.join(endings)}{inside}"
        '. Name where their captions are, as by --config "index_shards={caption_from: '
        f'{[*texts, *named, "json:FIELD"][0]}}}", write them into KEY.txt, or give a table of key '
        "and caption as captions."
    )
