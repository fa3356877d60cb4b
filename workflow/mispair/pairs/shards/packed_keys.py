"""Keys of pairs as names of members in a shard that mispair packed, and back.

A webdataset key ends at the first dot of a file name, so the names have the dot and some other
signs escaped. A mark at the start of such a shard states this; readers return the keys themselves.
"""

import re
import tarfile
from pathlib import Path
from typing import BinaryIO

MARK = tarfile.TarInfo.create_pax_global_header({"comment": "keys escaped by mispair"})
"""First bytes of a packed shard: a header that every reader of tar files skips."""

_UNUSUAL = re.compile(r"[.%\0]")
_UNUSUAL_FOLDER = re.compile(r"[%\0]|^\.|__MACOSX")
_ESCAPED = re.compile("%(25|2E|5F)")


def has_mark(opened: BinaryIO) -> bool:
    """Return whether an opened tar file has the mark; its position moves."""
    opened.seek(0)
    return opened.read(len(MARK)) == MARK


def is_packed(shard: Path) -> bool:
    """Return whether mispair packed a shard; one that cannot be read is none of these."""
    try:
        with shard.open("rb") as opened:
            return has_mark(opened)
    except OSError:
        return False


def member_key(key: str) -> str:
    r"""Return a key as the names of members of a packed shard begin.

    Dots in the file name would end the key there, so they are escaped, and so is what webdataset's
    readers skip. Different keys stay different.

    Examples
    --------
    >>> member_key("a.b/c d"), member_key("a.b/img.v2"), member_key("50%")
    ('a.b/c d', 'a.b/img%2Ev2', '50%25')
    >>> member_key("./a"), member_key(""), member_key("a\0b")
    ('%2E/a', '%_', 'a%00b')
    """
    folder, slash, base = key.rpartition("/")
    if base and not _UNUSUAL.search(base) and not _UNUSUAL_FOLDER.search(folder):
        return key
    key = key.replace("%", "%25").replace("\0", "%00")
    folder, slash, base = key.rpartition("/")
    folder = "/".join(
        part.replace("__", "%5F_", 1) if part == "__MACOSX" else part for part in folder.split("/")
    )
    if folder == "." or folder.startswith("./"):
        folder = "%2E" + folder[1:]
    return folder + slash + (base.replace(".", "%2E") or "%_")


def key_of_member(name: str) -> str:
    """Return the key that `member_key` escapes; a zero byte stays escaped, as lists are texts.

    Examples
    --------
    >>> [key_of_member(member_key(key)) for key in ("img.v2", "50%2E", "./__MACOSX/a", "b/", "a")]
    ['img.v2', '50%2E', './__MACOSX/a', 'b/', 'a']
    """
    if "%" not in name:
        return name
    folder, slash, base = name.rpartition("/")
    whole = folder + slash + ("" if base == "%_" else base)
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 16)), whole)
