"""Decode images from untrusted bytes."""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from mispair.pairs.shards.shards import MAX_ASPECT_RATIO, MAX_PIXELS

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")
"""Formats that Pillow may open, for any file extension: its reader of EPS starts Ghostscript."""

UNREAD = {
    b"ftypheic": "HEIC", b"ftypheix": "HEIC", b"ftyphevc": "HEIC", b"ftyphevx": "HEIC",
    b"ftypmif1": "HEIF", b"ftypmsf1": "HEIF", b"JXL \r\n\x87\n": "JPEG XL",
}  # fmt: skip
"""Formats of pictures that Pillow has no reader for, by their fifth to twelfth byte."""

MODES = (
    *("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr"),
    *("I", "F", "I;16", "I;16L", "I;16B", "I;16N"),
)
"""Pillow's pixel modes that `decode_image` turns into RGB."""

ORIENTATION = 0x0112
SIDEWAYS = (5, 6, 7, 8)


class UndecodableImageError(Exception):
    """Bytes that are not an image, or an image that is cut off."""


class TooManyPixelsError(UndecodableImageError):
    """An image with more pixels than allowed; it is refused before it is decoded."""


class ExtremeShapeError(UndecodableImageError):
    """An image that is too long and narrow to be resized; it is refused before it is decoded."""


def decode_image(
    encoded: bytes, max_pixels: int = MAX_PIXELS, max_ratio: float = MAX_ASPECT_RATIO
) -> Image.Image:
    """Decode an image to RGB as a viewer shows it.

    The orientation of its EXIF data is applied, transparent parts become white, 16-bit grey is
    scaled to 8 bits, and the first frame of an animation is used. Colour profiles are not applied.

    Raises
    ------
    UndecodableImageError
        If the bytes cannot be decoded to the end.
    TooManyPixelsError
        If width times height is above `max_pixels`.
    ExtremeShapeError
        If the longer side is more than `max_ratio` times the shorter one.
    """
    with _pillow_faults(max_pixels):
        image = _open(encoded, max_pixels, max_ratio)
        image.load()
        _check_mode(image)
        if _orientation(image) != 1:
            ImageOps.exif_transpose(image, in_place=True)
        return _rgb(image)


def image_size(
    encoded: bytes, max_pixels: int = MAX_PIXELS, max_ratio: float = MAX_ASPECT_RATIO
) -> tuple[int, int]:
    """Return width and height in pixels, as a viewer shows it, of an image that can be decoded.

    JPEGs are decoded in grey at an eighth of their size: all bytes are read, most arithmetic is
    saved.

    Raises
    ------
    UndecodableImageError
        If the bytes cannot be decoded to the end.
    TooManyPixelsError, ExtremeShapeError
        As for `decode_image`.
    """
    with _pillow_faults(max_pixels):
        image = _open(encoded, max_pixels, max_ratio)
        width, height = image.size
        image.draft("L", (1, 1))
        image.load()
        _check_mode(image)
        # TIFF images are turned while they are loaded; their size is that of the turned image.
        return (height, width) if _orientation(image) in SIDEWAYS else (width, height)


def _open(encoded: bytes, max_pixels: int, max_ratio: float) -> Image.Image:
    if not encoded:
        raise UndecodableImageError("is empty (0 bytes)")
    try:
        image = Image.open(io.BytesIO(encoded), formats=FORMATS)
    except UnidentifiedImageError as error:
        name = UNREAD.get(encoded[4:12])
        raise UndecodableImageError(
            f"is {name}, which is not read: convert it to JPEG (magick mogrify -format jpg)"
            if name else f"is none of {', '.join(FORMATS)}"
        ) from error  # fmt: skip
    width, height = image.size
    if width * height > max_pixels:
        raise TooManyPixelsError(f"{width} x {height} pixels are over the limit of {max_pixels}")
    if max(width, height) > max_ratio * min(width, height):
        raise ExtremeShapeError(
            f"{width} x {height} pixels, one side is more than {max_ratio:g} times the other"
        )
    return image


def _check_mode(image: Image.Image) -> None:
    if image.mode not in MODES:
        raise UndecodableImageError(f"its pixels are {image.mode}, which cannot be shown as RGB")


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, 1 to 8; damaged EXIF data leave an image as it is."""
    try:
        orientation = image.getexif().get(ORIENTATION, 1)
    except Exception:  # Pillow's EXIF reader raises SyntaxError, struct.error, KeyError and more.
        return 1
    return orientation if orientation in range(1, 9) else 1


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode[0] in "IF":
        return _scaled_to_8_bits(image).convert("RGB")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    return image.convert("RGB")


def _scaled_to_8_bits(image: Image.Image) -> Image.Image:
    """Scale grey values to 0...255: Pillow would clip them.

    The range is 0 to 65535 for whole numbers and 0 to 1 for fractions. If values are outside it,
    the image's own smallest value becomes black and its largest one white.
    """
    values = np.asarray(image).astype(np.float32)
    low, high = 0.0, 1.0 if image.mode == "F" else 65_535.0
    finite = values[np.isfinite(values)]
    if finite.size and (finite.min() < low or finite.max() > high):
        low, high = float(finite.min()), float(finite.max())
    scaled = np.clip((np.nan_to_num(values) - low) / max(high - low, 1e-30), 0, 1) * 255
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        scaled[values == transparent] = 255
    return Image.fromarray(np.rint(scaled).astype(np.uint8))


@contextmanager
def _pillow_faults(max_pixels: int) -> Iterator[None]:
    """Turn all errors of Pillow on broken bytes into one error, and silence its warnings."""
    pillows_limit = Image.MAX_IMAGE_PIXELS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Pillow itself refuses twice its limit; ours is the caller's.
        Image.MAX_IMAGE_PIXELS = max_pixels
        try:
            yield
        except UndecodableImageError:
            raise
        except Image.DecompressionBombError as error:
            pixels = re.search(r"\d+", str(error))
            raise TooManyPixelsError(
                f"{pixels.group() if pixels else 'its'} pixels are over the limit of {max_pixels}"
            ) from error
        except Exception as error:
            # Pillow's decoders raise OSError, SyntaxError, ValueError, struct.error and more.
            raise UndecodableImageError(_words(error)) from error
        finally:
            Image.MAX_IMAGE_PIXELS = pillows_limit


def _words(error: Exception) -> str:
    # An address in memory would make the same fault look different in each run.
    return re.sub(r" at 0x[0-9a-f]+", "", str(error)) or type(error).__name__
