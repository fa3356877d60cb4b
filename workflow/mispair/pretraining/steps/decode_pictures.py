"""Decode and shrink the pictures of a corpus once, for towers that are trained from scratch."""

from pathlib import Path

from pydantic import Field

from mispair.core import settings


class Settings(settings.Settings):
    side: int = Field(
        28, ge=8, le=64, description="Side of the pictures in pixels; about 2.4 kB a pair at 28."
    )


def run(
    settings: Settings, *, corpus: Path, index: list[Path], shards: list[Path], pictures: Path
) -> None:
    """Write the pictures of all kept pairs as one array.

    `corpus` holds the kept pairs, sorted by key. `pictures` gets the array ``pictures``,
    (n, side, side, 3) uint8 in the order of the corpus.
    """
    from mispair.core import files
    from mispair.core.progress import Progress
    from mispair.core.provenance import fingerprint
    from mispair.pretraining.data import read_pictures

    pairs, corpus_metadata = files.read_parquet(corpus)
    tables = {path.stem: files.read_parquet(path)[0] for path in index}
    with Progress("decoding", len(pairs), "pictures") as progress:
        array = read_pictures(pairs, tables, shards, settings.side, progress.reach)
    metadata = {
        "pairs": fingerprint(pairs["key"]),
        "corpus": corpus_metadata.get("pairs_fingerprint", ""),
    }
    files.write_tensors(pictures, {"pictures": array}, metadata)
