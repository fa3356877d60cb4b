"""PDF files whose bytes depend only on their content.

The drawing engine numbers fonts and lists resources in an order that differs from call to call.
"""

from __future__ import annotations

import re

_OBJECT = re.compile(rb"(\d+) 0 obj\n")
_END = b"\nendobj\n"
_LENGTH = re.compile(rb"/Length (\d+)")
_REFERENCE = re.compile(rb"(\d+) 0 R\b")
_RESOURCES = re.compile(rb"(<<\n)((?: +/\w+ \d+ 0 R\n){2,})")


def in_order(pdf: bytes) -> bytes:
    """Sort the entries of a PDF's dictionaries of references, and renumber its objects.

    Objects are numbered in the order in which references from the catalogue reach them.

    Parameters
    ----------
    pdf : bytes
        With one table of objects and without object streams, as `vl_convert` writes it.
    """
    objects = {
        number: _RESOURCES.sub(_sorted, head) + stream
        for number, (head, stream) in _objects(pdf).items()
    }
    heads = {
        number: body.partition(b"\nstream\n")[0] if b"\nstream\n" in body else body
        for number, body in objects.items()
    }
    root = next(number for number, head in heads.items() if b"/Type /Catalog" in head)
    order: dict[int, int] = {}
    waiting = [root]
    while waiting:
        number = waiting.pop()
        if number not in order:
            order[number] = len(order) + 1
            waiting += [int(reference) for reference in reversed(_REFERENCE.findall(heads[number]))]
    written = pdf[: pdf.index(b"\n", pdf.index(b"\n") + 1) + 1]
    offsets = []
    for number, new in order.items():
        offsets.append(len(written))
        head = _REFERENCE.sub(lambda reference: b"%d 0 R" % order[int(reference[1])], heads[number])
        body = head + objects[number][len(heads[number]) :]
        written += b"%d 0 obj\n" % new + body + _END
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return written + (
        b"xref\n0 %d\n0000000000 65535 f \n" % (len(order) + 1) + table
        + b"trailer\n<<\n  /Size %d\n  /Root 1 0 R\n>>\n" % (len(order) + 1)
        + b"startxref\n%d\n%%%%EOF\n" % len(written)
    )  # fmt: skip


def _objects(pdf: bytes) -> dict[int, tuple[bytes, bytes]]:
    """Return the head and the stream (empty if there is none) of every object by its number."""
    objects = {}
    position = 0
    while start := _OBJECT.search(pdf, position):
        end = pdf.index(_END, start.end())
        stream = pdf.find(b"\nstream\n", start.end(), end)
        if stream >= 0:
            # A stream may hold any bytes, so only its length gives its end.
            (length,) = _LENGTH.findall(pdf[start.end() : stream])
            end = pdf.index(_END, stream + len(b"\nstream\n") + int(length))
        cut = end if stream < 0 else stream
        objects[int(start[1])] = pdf[start.end() : cut], pdf[cut:end]
        position = end + len(_END)
    return objects


def _sorted(objects: re.Match[bytes]) -> bytes:
    return objects[1] + b"".join(sorted(objects[2].splitlines(keepends=True)))
