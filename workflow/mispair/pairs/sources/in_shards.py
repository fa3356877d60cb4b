"""Where tar shards that are read in place have their captions, by their first samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from mispair.core.files import UserError
from mispair.pairs.captions.decoding import parse_json, text_fields
from mispair.pairs.captions.user_files import SAMPLES
from mispair.pairs.shards.shards import (
    CAPTION_EXTENSION,
    MAX_TEXT_BYTES,
    SIDECAR_EXTENSION,
    Candidate,
    ShardReader,
    split_run,
)
from mispair.pairs.shards.tar_members import BrokenTarError
from mispair.pairs.sources.source import TEXT_ENDINGS
from mispair.pairs.sources.tables import CAPTION_COLUMNS, named_column


def captions_in_shards(shards: Iterable[str], given: str = CAPTION_EXTENSION) -> str:
    """Return where samples have their captions, as ``index_shards.caption_from`` says it.

    Without a setting that is the first of `TEXT_ENDINGS` that is next to a first picture, or else
    a field of the JSON with a usual name of captions. Shards without a picture at their start
    decide nothing.

    Raises
    ------
    UserError
        If the first samples have pictures, and neither; or not the ending that is given.
    """
    endings: set[str] = set()
    fields: dict[str, None] = {}
    first = ""
    for shard in shards:
        with suppress(OSError, BrokenTarError), Path(shard).open("rb") as opened:
            reader = ShardReader(opened)
            for sample in _pictures(reader, given):
                first = first or shard
                endings |= {ending for ending, _ in sample.members}
                json = sample.of(SIDECAR_EXTENSION)
                if json is not None and json.size <= MAX_TEXT_BYTES:
                    with suppress(ValueError):
                        fields |= dict.fromkeys(text_fields(parse_json(reader.read(json))))
    usual = [*TEXT_ENDINGS] if given == CAPTION_EXTENSION else [given]
    if not first or not endings.isdisjoint(usual):
        return next((ending for ending in usual if ending in endings), given)
    field = named_column([*fields], "", "caption_column", CAPTION_COLUMNS)
    if field and given == CAPTION_EXTENSION:
        return f"json:{field}"
    has = ", ".join(f".{ending}" for ending in sorted(endings))
    texts = f" with the texts {', '.join([*fields][:12])} in JSON" if fields else ""
    captions = f"json:{field or next(iter(fields), 'FIELD')}"
    raise UserError(
        f"index_shards.caption_from: the first samples of {first} have no .{given}, only {has}"
        f'{texts}. Name where their captions are, as by --config "index_shards={{caption_from: '
        f'{captions}}}", or write them into KEY.txt.'
    )


def _pictures(reader: ShardReader, extension: str) -> Iterator[Candidate]:
    """Yield the first samples that have a picture."""
    for run in islice(reader.runs(), SAMPLES):
        yield from (one for one in split_run(run, extension, lambda key: True) if one.image)
