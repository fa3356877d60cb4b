"""Read the images of an index back from their shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image

from mispair.pairs.images import decode_image
from mispair.pairs.shards import TruncatedShardError, read_samples


def kept_images(
    shards: Sequence[Path], kept: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, Image.Image]]:
    """Yield key and RGB image of every kept pair, in the order of shards and samples.

    Parameters
    ----------
    shards : sequence of Path
        The shards of one index.
    kept : sequence of (shard name, key)
        The index's kept pairs; what was rejected is passed over.
    """
    wanted = set(kept)
    for shard in sorted(shards):
        try:
            for sample in read_samples(shard):
                if (shard.name, sample.key) in wanted and sample.image is not None:
                    yield sample.key, decode_image(sample.image)
        except TruncatedShardError:
            # The index has counted the damage; every pair that it kept stands before it.
            continue
