"""Some captions of a source, read before any job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from mispair.core.files import UserError
from mispair.pairs.captions.decoding import decode_captions, split_lines
from mispair.pairs.captions.user_files import SAMPLES
from mispair.pairs.index.faults import RejectedError
from mispair.pairs.index.policy import MOST_UNDECIDED, Policy
from mispair.pairs.shards.shards import MAX_TEXT_BYTES, ShardReader, split_run
from mispair.pairs.shards.tar_members import BrokenTarError
from mispair.pairs.sources.source import Entry, Source, links_out
from mispair.pairs.sources.tables import Columns, columns_to_read, ending_of, flat

READ = 100
"""Pairs of a source whose captions are read, evenly; of tar shards, the first `SAMPLES` of each."""
LEAST = 20
"""Captions from which on nothing but labels is refused."""


def refuse_labels_and_lines(captions: Sequence[str], are_lines_decided: bool) -> None:
    """Refuse captions without a letter, and several lines of which no setting says what they are.

    Raises
    ------
    UserError
        With one of them.
    """
    if len(captions) >= LEAST and not any(map(str.isalpha, "".join(captions))):
        raise UserError(
            f"pairs: no caption has a letter, by {len(captions)} of them such as "
            f"{captions[0][:80]!r}: these are labels or numbers. Name where captions are: pairs: "
            "{path: ..., captions: TABLE}, or index_shards.caption_from for tar shards."
        )
    several = [text for text in captions if len(split_lines(text.strip())) > 1]
    if not are_lines_decided and len(several) > MOST_UNDECIDED * len(captions):
        raise UserError(
            f"index_shards.captions_per_line: {len(several)} of {len(captions)} captions have "
            f"several lines, such as {several[0][:80]!r}. Set it to true if each line is a caption "
            "of its own, or to false if the lines are one text, as by --config "
            '"index_shards={captions_per_line: true}".'
        )


def captions_of(source: Source) -> list[str]:
    """Return some captions of a source that is packed, as far as they can be read."""
    if source.columns:
        return [*_of_parquet(Path(source.entries[0].pictures[0]), Columns(*source.columns))]
    policy = Policy(caption_from=source.captions_in)
    chosen = source.entries[:: -(-len(source.entries) // READ)]
    return [text for entry in chosen for text in _of_entry(entry, policy, source.boundary)]


def _of_entry(entry: Entry, policy: Policy, boundary: Path | None) -> Iterator[str]:
    yield from (entry.captions or ())[:1]
    inside = (text for text in entry.texts if boundary is None or not links_out(text, boundary))
    for path in map(Path, inside):
        is_caption = (ending_of(path.name) == "json") == (policy.caption_field is not None)
        with suppress(OSError, RejectedError):
            if is_caption and path.is_file() and path.stat().st_size <= MAX_TEXT_BYTES:
                yield from decode_captions(path.read_bytes(), policy.caption_field)[:1]


def _of_parquet(path: Path, columns: Columns) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with suppress(OSError, pa.ArrowException), pq.ParquetFile(path) as opened:
        wanted = columns_to_read(path, [columns.caption])
        for batch in islice(opened.iter_batches(READ, columns=wanted), 1):
            for row in map(flat, batch.to_pylist()):
                cell = row.get(columns.caption)
                texts = cell if isinstance(cell, list) else [cell]
                yield from [text for text in texts if isinstance(text, str)][:1]


def captions_of_shards(shards: Iterable[str], caption_from: str) -> list[str]:
    """Return the captions of the first samples of shards, as far as they can be read."""
    policy, texts = Policy(caption_from=caption_from), list[str]()
    for shard in shards:
        with suppress(OSError, BrokenTarError), Path(shard).open("rb") as opened:
            reader = ShardReader(opened)
            for run in islice(reader.runs(), SAMPLES):
                for sample in split_run(run, policy.caption_extension, lambda key: False):
                    member = sample.caption
                    if sample.image and member is not None and member.size <= MAX_TEXT_BYTES:
                        with suppress(RejectedError):
                            texts += decode_captions(reader.read(member), policy.caption_field)[:1]
    return texts
