"""Some pictures of a source, read before any job."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from mispair.pairs.shards.first_samples import SAMPLES, first_samples
from mispair.pairs.shards.shards import CAPTION_EXTENSION, MAX_MEMBER_BYTES, ShardReader
from mispair.pairs.shards.tar_members import BrokenTarError
from mispair.pairs.sources.columns import Columns
from mispair.pairs.sources.source import Source


def pictures_of(source: Source) -> Iterator[tuple[str, bytes]]:
    """Yield some pictures of a source that is packed, with the path and the key of each."""
    if source.columns:
        from mispair.pairs.sources.parquet import samples

        packed = Path(source.entries[0].pictures[0])
        first = islice(samples(packed, Columns(*source.columns)), SAMPLES)
        yield from ((f"{packed}: {key}", picture or b"") for key, _, picture, _, _ in first)
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
