"""TensorBoard's event files, of scalars alone: records of protocol buffers.

Written by hand, because the libraries that can import torch, or a server, for these few bytes:
``Event`` is {1: wall_time, double; 2: step, int64; 3: file_version; 5: summary}, a summary is
{1: repeated value}, a value {1: tag; 2: simple_value, float}. A record is its length and its bytes,
each with a masked CRC-32C behind it (Castagnoli's polynomial, as in TensorFlow's TFRecord).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

VERSION = b"brain.Event:2"
POLYNOMIAL, MASK = 0x82F63B78, 0xA282EAD8


def _table() -> Iterator[int]:
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (POLYNOMIAL if value & 1 else 0)
        yield value


TABLE = tuple(_table())


def event_file(steps: Iterable[tuple[int, Iterable[tuple[str, float]]]]) -> bytes:
    """Return the bytes of an event file.

    Parameters
    ----------
    steps : iterable of (int, iterable of (str, float))
        Ascending steps, and tags with their values. A step counts as a second: nobody noted the
        time, and the same results are to give the same bytes.
    """
    events = [_double(1, 0.0) + _bytes(3, VERSION)]
    for step, values in steps:
        message = _double(1, float(step)) + _number(2, step)
        for tag, value in values:
            scalar = _bytes(1, tag.encode()) + struct.pack("<Bf", 2 << 3 | 5, value)
            events.append(message + _bytes(5, _bytes(1, scalar)))
    return b"".join(map(_record, events))


def _record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return b"".join((length, _checked(length), content, _checked(content)))


def _checked(content: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in content:
        crc = (crc >> 8) ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + MASK) & 0xFFFFFFFF)


def _number(field: int, value: int) -> bytes:
    return bytes([field << 3]) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return struct.pack("<Bd", field << 3 | 1, value)


def _bytes(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    content = bytearray()
    while value > 127:
        content.append(value & 127 | 128)
        value >>= 7
    return bytes([*content, value])
