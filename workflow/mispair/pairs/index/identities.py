"""Identities of captions and images: 16 hexadecimal digits in files, 64-bit integers in memory."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from mispair.pairs.index.index import caption_id

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_VALUES = np.full(256, 255, np.uint8)
_VALUES[_DIGITS] = np.arange(16)


def identities(digits: Any) -> np.ndarray:
    """Turn strings of 16 hexadecimal digits, lower case, into their values, (n,) uint64.

    They are a column of Arrow or of pandas, or a list. Of pandas, a long column is in several
    chunks, and Arrow makes another type of it than of a short one.

    Raises
    ------
    ValueError
        If a string has another form.

    Examples
    --------
    >>> identities(["00000000000000ff", "0000000000000010"])
    array([255,  16], dtype=uint64)
    """
    if not isinstance(digits, pa.Array | pa.ChunkedArray):
        digits = pa.array(digits, pa.large_string())
    if isinstance(digits, pa.ChunkedArray):
        digits = digits.combine_chunks()
    try:
        fixed = digits.cast(pa.binary()).cast(pa.binary(16))
    except pa.ArrowInvalid as error:
        raise ValueError("an identity does not have 16 hexadecimal digits") from error
    characters = np.frombuffer(fixed.buffers()[1], np.uint8, 16 * len(fixed), 16 * fixed.offset)
    values = _VALUES[characters]
    if fixed.null_count or (values > 15).any():
        raise ValueError("an identity does not have 16 hexadecimal digits")
    octets = values[0::2] << 4 | values[1::2]
    return octets.view(">u8").astype(np.uint64)


def caption_identities(texts: Iterable[str]) -> np.ndarray:
    """Return the identities of captions by their texts, (n,) uint64; see `index.caption_id`."""
    return np.array([int(caption_id(text), 16) for text in texts], np.uint64)


def text_hashes(texts: pa.ChunkedArray) -> np.ndarray:
    """Return 64-bit hashes of texts; two of 12 million agree by chance in 1 of 250,000 runs."""
    from pandas.util import hash_array

    return hash_array(texts.to_numpy(zero_copy_only=False), categorize=False)


def hexadecimal(numbers: np.ndarray) -> pa.StringArray:
    """Turn numbers into strings of 16 hexadecimal digits, the inverse of `identities`.

    Examples
    --------
    >>> hexadecimal(np.array([255], np.uint64)).to_pylist()
    ['00000000000000ff']
    """
    octets = numbers.astype(">u8").view(np.uint8)
    characters = _DIGITS[np.stack([octets >> 4, octets & 15], axis=1)]
    offsets = np.arange(0, 16 * len(numbers) + 1, 16, dtype=np.int32)
    return pa.StringArray.from_buffers(
        len(numbers), pa.py_buffer(offsets), pa.py_buffer(characters.tobytes())
    )
