"""Decode images from untrusted bytes."""

from __future__ import annotations

import io
import warnings

from PIL import Image

MAX_PIXELS = 89_478_485
"""Largest image that is decoded (Pillow's own warning limit): a larger one is a bomb."""

JPEG_CHECK_SIZE = (32, 32)


class UndecodableImageError(Exception):
    """Bytes that are not an image, are cut off, or unfold to too many pixels."""


def decode_image(encoded: bytes) -> Image.Image:
    """Decode an image to RGB.

    Raises
    ------
    UndecodableImageError
        If the bytes cannot be decoded to the end.
    """
    with _pillow_faults():
        return _open(encoded).convert("RGB")


def image_size(encoded: bytes) -> tuple[int, int]:
    """Return width and height in pixels of an image that can be decoded to its end.

    JPEGs are decoded at an eighth of their size: all bytes are read, most arithmetic is saved.

    Raises
    ------
    UndecodableImageError
        If the bytes cannot be decoded to the end.
    """
    with _pillow_faults():
        image = _open(encoded)
        size = image.size
        image.draft("RGB", JPEG_CHECK_SIZE)
        image.load()
    return size


def _open(encoded: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(encoded))
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise UndecodableImageError(f"{width} x {height} pixels are over the limit of {MAX_PIXELS}")
    return image


class _pillow_faults:  # noqa: N801 (a context manager reads as a verb)
    """Turn whatever Pillow raises on broken bytes into one error, and keep its warnings quiet."""

    def __enter__(self) -> None:
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        self._warnings.__exit__(None, None, None)
        if isinstance(error, Exception) and not isinstance(error, UndecodableImageError):
            # Pillow's decoders raise OSError, SyntaxError, ValueError, struct.error and more.
            raise UndecodableImageError(str(error)) from error
