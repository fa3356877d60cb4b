"""Walk through the members of a tar file: their names and places, one header in memory at a time.

The standard library's reader takes a broken header for the end of the archive, keeps every member
that it has seen, and reads extended headers of any declared size. A shard from the internet needs
the opposite: faults are reported, memory stays constant, and every read is bounded.
"""

import os
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

BLOCK = 512
MAX_EXTENDED_HEADER = 1 << 20
"""Bytes of a long name or of pax records; a real one has some hundreds."""
MAX_PADDING = 1 << 20
"""Zeros after the last member: writers fill up to 10 KiB, tapes up to 1 MiB."""

KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"5": "a directory",
    b"6": "a pipe",
    b"U": "a file that could not be read",
}
"""Members without content. ``U`` is mispair's own, of the types that are free for vendors."""
SYMBOLIC_LINK, PIPE, UNREADABLE = b"2", b"6", b"U"
PLAIN = (b"0", b"\0", b"7")
SPARSE = b"S"
LONG_NAME, LONG_LINK = b"L", b"K"
PAX, PAX_GLOBAL, PAX_SOLARIS = b"x", b"g", b"X"
EXTENDED = (LONG_NAME, LONG_LINK, PAX, PAX_GLOBAL, PAX_SOLARIS)
"""Extended headers: their content belongs to the next member."""

SIGNATURES = (
    (b"\x1f\x8b", "is gzip-compressed: gunzip it"),
    (b"BZh", "is bzip2-compressed: bunzip2 it"),
    (b"\xfd7zXZ\0", "is xz-compressed: unxz it"),
    (b"\x28\xb5\x2f\xfd", "is zstd-compressed: unzstd it"),
    (b"PK\x03\x04", "is a zip file: unpack it and pack its files as tar"),
    (b"PAR1", "is a Parquet file, not a tar file"),
    (b"version https://git-lfs", "is a Git LFS pointer: run 'git lfs pull'"),
    (b"<!doctype", "is an HTML page"),
    (b"<html", "is an HTML page"),
    (b"<?xml", "is an XML page"),
    (b"{", "is a JSON text, perhaps a server's error"),
)


class Member(NamedTuple):
    """A member: its name, and where its content is in the file (bytes)."""

    name: str
    offset: int
    size: int
    kind: str = ""
    """Empty for a plain file, otherwise what it is, in words."""

    @property
    def is_file(self) -> bool:
        """Whether the content can be read directly."""
        return not self.kind


class BrokenTarError(Exception):
    """The archive cannot be read further; the members before are whole."""

    def __init__(self, cause: str, member: Member | None = None):
        super().__init__(cause)
        self.member = member
        """The member that is cut off, if its header is whole."""


class TrailingDataError(BrokenTarError):
    """Something follows the end marker; all members before it are whole."""


def read_members(opened: BinaryIO) -> Iterator[Member]:
    """Yield the members of a tar file in order; a yielded member is within the file.

    Understands ustar, GNU and pax headers. The caller may move the file's position in between.

    Raises
    ------
    BrokenTarError
        Where the archive is cut off or damaged, or ends without an end marker.
    TrailingDataError
        If anything but padding follows the end marker.
    """
    length = opened.seek(0, os.SEEK_END)
    position = 0
    extended: dict[bytes, bytes] = {}
    while True:
        opened.seek(position)
        header = opened.read(BLOCK)
        if not header.strip(b"\0") and len(header) == BLOCK:
            if extended:
                raise BrokenTarError(f"an extended header before byte {position} has no member")
            _check_padding(opened, length - position)
            return
        name, kind, size = _parse(header, position, length)
        content = position + BLOCK
        if kind == SPARSE:
            content = _after_sparse_map(opened, header, content)
        if kind not in EXTENDED:
            size = _number_of(extended, size, position)
        if kind in KINDS:
            size = 0
        is_extended = kind in EXTENDED
        member = Member(
            _text(extended.get(b"GNU.sparse.name", extended.get(b"path", name))),
            content,
            size,
            _in_words(kind, name, extended),
        )
        if content + size > length:
            raise BrokenTarError(
                f"is cut off: a member at byte {position} should have {size} bytes of content, "
                f"the file ends after {max(0, length - content)}",
                None if is_extended else member,
            )
        position = content + -(-size // BLOCK) * BLOCK
        if not is_extended:
            yield member
            extended = {}
            continue
        if size > MAX_EXTENDED_HEADER:
            raise BrokenTarError(
                f"an extended header of {size} bytes is over the limit of {MAX_EXTENDED_HEADER}"
            )
        data = opened.read(size)
        if kind == LONG_NAME:
            extended[b"path"] = data.split(b"\0", 1)[0]
        elif kind in (PAX, PAX_SOLARIS):
            extended |= _pax_records(data, content)


def _parse(header: bytes, position: int, length: int) -> tuple[bytes, bytes, int]:
    """Return name, type and size of a header block whose checksum is right."""
    if len(header) < BLOCK or not _checksum_is_right(header):
        if position == 0:
            raise BrokenTarError(_what_it_is(header, length))
        if len(header) < BLOCK:
            raise BrokenTarError(f"is cut off: it ends at byte {length} without an end marker")
        raise BrokenTarError(f"the header at byte {position} is broken (wrong checksum)")
    name = header[:100].split(b"\0", 1)[0]
    kind = header[156:157]
    # GNU headers keep times and sparse maps where ustar keeps the first part of a long path.
    if header[257:263] == b"ustar\0":
        prefix = header[345:500].split(b"\0", 1)[0]
        name = prefix + b"/" + name if prefix else name
    return name, kind, _number(header[124:136], position)


def _checksum_is_right(header: bytes) -> bool:
    try:
        stored = int(header[148:156].strip(b" \0") or b"x", 8)
    except ValueError:
        return False
    # The checksum's own eight bytes count as blanks.
    total = _sum_of(header) - sum(header[148:156]) + 8 * ord(" ")
    if stored == total:
        return True
    # Some old writers summed signed bytes.
    high = sum(byte > 127 for byte in header) - sum(byte > 127 for byte in header[148:156])
    return stored == total - 256 * high


def _sum_of(header: bytes) -> int:
    """Return the sum of the 512 bytes of a header, at a third of the cost of `sum`.

    The low half of Adler-32 is 1 plus the sum modulo 65,521, which 256 bytes do not reach.

    Examples
    --------
    >>> _sum_of(bytes([255]) * BLOCK) == 255 * BLOCK
    True
    """
    halves = (zlib.adler32(header[:256]) & 0xFFFF, zlib.adler32(header[256:]) & 0xFFFF)
    return sum(halves) - 2


def _number(raw: bytes, position: int) -> int:
    """Read a size: octal digits, or GNU's big-endian binary form."""
    if raw[0] == 0x80:
        return int.from_bytes(raw[1:], "big")
    try:
        size = int(raw.strip(b" \0") or b"0", 8)
    except ValueError:
        size = -1
    if size < 0:
        raise BrokenTarError(f"the header at byte {position} is broken (its size is no number)")
    return size


def _number_of(extended: dict[bytes, bytes], size: int, position: int) -> int:
    if b"size" not in extended:
        return size
    if not extended[b"size"].isdigit() or len(extended[b"size"]) > 20:
        raise BrokenTarError(f"the pax size before byte {position} is no number")
    return int(extended[b"size"])


def _pax_records(data: bytes, position: int) -> dict[bytes, bytes]:
    """Read pax records, LENGTH KEYWORD=VALUE and a newline each; only keywords that matter."""
    records: dict[bytes, bytes] = {}
    start = 0
    while start < len(data) and data[start]:
        digits, blank, _ = data[start : start + 20].partition(b" ")
        end = start + int(digits) if digits.isdigit() else 0
        keyword, equals, value = data[start + len(digits) + 1 : end].partition(b"=")
        if not blank or not equals or end > len(data) or data[end - 1 : end] != b"\n":
            raise BrokenTarError(f"the pax records at byte {position} are broken")
        if keyword in (b"path", b"size") or keyword.startswith(b"GNU.sparse."):
            records[keyword] = value[:-1]
        start = end
    return records


def _after_sparse_map(opened: BinaryIO, header: bytes, content: int) -> int:
    more = header[482]
    while more:
        block = opened.read(BLOCK)
        if len(block) < BLOCK:
            raise BrokenTarError(f"is cut off in the sparse map at byte {content}")
        more = block[504]
        content += BLOCK
    return content


def _in_words(kind: bytes, name: bytes, extended: dict[bytes, bytes]) -> str:
    if kind == SPARSE or any(keyword.startswith(b"GNU.sparse.") for keyword in extended):
        return "a sparse file"
    if kind in PLAIN:
        # Before ustar a directory was a plain member whose name ends with a slash.
        return "a directory" if name.endswith(b"/") else ""
    return KINDS.get(kind, "of an unknown type")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _check_padding(opened: BinaryIO, padding: int) -> None:
    """Refuse what follows the end marker unless it is zeros, and not many."""
    rest = opened.read(MAX_PADDING)
    if rest.count(0) != len(rest):
        raise TrailingDataError(
            "data follow its end marker: several tar files joined by cat (use tar --concatenate), "
            "or members were overwritten by zeros"
        )
    if padding > MAX_PADDING + BLOCK:
        raise TrailingDataError(
            f"{padding} bytes follow its end marker, beginning with zeros: an unfinished download?"
        )


def _what_it_is(start: bytes, length: int) -> str:
    if length == 0:
        return "is empty (0 bytes)"
    lowered = start.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for signature, name in SIGNATURES:
        if start.startswith(signature) or lowered.startswith(signature):
            return name
    if length < BLOCK:
        return f"is cut off: it has {length} bytes, less than a header"
    return "is not a tar file, or its first header is broken"
