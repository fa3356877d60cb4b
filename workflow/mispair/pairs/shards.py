"""Read webdataset tar shards: samples one after another, in constant memory."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

IMAGE_EXTENSIONS = ("jpg", "jpeg", "png", "webp")
CAPTION_EXTENSION = "txt"


class TruncatedShardError(Exception):
    """A shard that cannot be read to its end; `key` is the sample it broke in, if any."""

    def __init__(self, key: str | None, cause: str):
        super().__init__(cause)
        self.key = key


@dataclass
class Sample:
    """The members of one key: ``members["jpg"]`` holds the bytes of ``KEY.jpg``."""

    key: str
    members: dict[str, bytes] = field(default_factory=dict)

    @property
    def image(self) -> bytes | None:
        """The encoded image, or None."""
        return next((self.members[e] for e in IMAGE_EXTENSIONS if e in self.members), None)

    @property
    def caption(self) -> bytes | None:
        """The encoded caption, or None."""
        return self.members.get(CAPTION_EXTENSION)


def split_name(name: str) -> tuple[str, str]:
    """Split a member's name into key and extension at the first dot of the file name.

    Examples
    --------
    >>> split_name("a.b/000.JPG"), split_name("000.seg.png")
    (('a.b/000', 'jpg'), ('000', 'seg.png'))
    """
    folder, slash, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    return folder + slash + stem, extension.lower()


def read_samples(shard: Path) -> Iterator[Sample]:
    """Yield the samples of a shard in order; members of one key that touch form one sample.

    Raises
    ------
    TruncatedShardError
        Where the shard is damaged; every sample yielded before is whole.
    """
    sample: Sample | None = None
    try:
        # Errors in a header must not pass for the end of the archive (tarfile's default).
        with tarfile.open(shard, mode="r:", ignore_zeros=False, errorlevel=2) as archive:
            for member in archive:
                if not member.isfile():
                    continue
                key, extension = split_name(member.name)
                if sample is not None and sample.key != key:
                    yield sample
                    sample = None
                if sample is None:
                    sample = Sample(key)
                opened = archive.extractfile(member)
                assert opened is not None  # isfile() said so
                content = opened.read()
                if len(content) != member.size:
                    raise tarfile.ReadError("unexpected end of data")
                sample.members.setdefault(extension, content)
            _refuse_a_missing_end(archive)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise TruncatedShardError(sample.key if sample else None, str(error)) from error
    if sample is not None:
        yield sample


def _refuse_a_missing_end(archive: tarfile.TarFile) -> None:
    """Refuse an archive without its closing block of zeros.

    Past the first member tarfile takes a broken header for the end of the archive, without a word.
    """
    assert archive.fileobj is not None
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("a broken header, or no end-of-archive block: the file is cut off")
