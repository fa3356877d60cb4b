"""Images from untrusted bytes: shown as a viewer does, refused before they cost memory."""

import io
import struct
import subprocess
import sys
import warnings
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mispair.pairs.shards.images import (
    ExtremeShapeError,
    TooManyPixelsError,
    UndecodableImageError,
    decode_image,
    image_size,
)
from mispair.pairs.shards.shards import MAX_ASPECT_RATIO
from tests.pairs.test_index import encoded

SIZE = (16, 8)
WHITE, BLACK, RED = (255, 255, 255), (0, 0, 0), (255, 0, 0)


def noise(mode: str = "RGB", size: tuple[int, int] = (61, 43)) -> Image.Image:
    values = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(values).convert(mode)


def corners(image: Image.Image) -> list[Any]:
    right, bottom = image.width - 1, image.height - 1
    return [image.getpixel(at) for at in ((0, 0), (right, 0), (0, bottom), (right, bottom))]


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_plain_jpeg_has_the_bytes_that_pillow_gives(mode, progressive):
    content = encoded(noise(mode), "JPEG", progressive=progressive)
    expected = Image.open(io.BytesIO(content)).convert("RGB")
    assert decode_image(content).tobytes() == expected.tobytes()
    assert decode_image(content).mode == "RGB"
    assert image_size(content) == (61, 43)


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_is_applied(image_format, orientation):
    # What is stored, so that the upright picture has red, green, blue, white in its corners
    # (left to right, top to bottom). By the EXIF standard, orientation n stores the upright
    # picture's first row at: 1 top, 2 top, 3 bottom, 4 bottom, 5 left, 6 right, 7 right, 8 left.
    upright = np.zeros((32, 64, 3), np.uint8)
    upright[:16, :32], upright[:16, 32:] = RED, (0, 255, 0)
    upright[16:, :32], upright[16:, 32:] = (0, 0, 255), WHITE
    turned = upright.transpose(1, 0, 2)
    stored = [
        upright, upright[:, ::-1], upright[::-1, ::-1], upright[::-1],
        turned, turned[::-1], turned[::-1, ::-1], turned[:, ::-1],
    ][orientation - 1]  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"quality": 100} if image_format in ("JPEG", "WEBP") else {}
    if image_format == "TIFF":
        content = encoded(Image.fromarray(stored.copy()), "TIFF", tiffinfo={0x0112: orientation})
    else:
        content = encoded(Image.fromarray(stored.copy()), image_format, exif=exif, **options)
    assert image_size(content) == (64, 32)
    decoded = decode_image(content)
    assert decoded.size == (64, 32)
    wanted = np.array(corners(Image.fromarray(upright)))
    assert np.abs(np.array(corners(decoded)) - wanted).max() <= 12


def test_damaged_exif_data_leave_the_image_as_it_is():
    content = encoded(noise(), "JPEG", exif=b"Exif\0\0MM\0*\0\0\xff\xff\x01\x12")
    assert image_size(content) == (61, 43)
    assert decode_image(content).size == (61, 43)
    strange = Image.Exif()
    strange[0x0112] = 9
    assert image_size(encoded(noise(), "JPEG", exif=strange)) == (61, 43)


@pytest.mark.parametrize("image_format", ["PNG", "WEBP", "TIFF"])
def test_transparency_lies_on_white(image_format):
    image = Image.new("RGBA", SIZE, (0, 0, 0, 0))
    image.paste((255, 0, 0, 255), (8, 0, 16, 8))
    lossless = {"lossless": True, "exact": True} if image_format == "WEBP" else {}
    decoded = decode_image(encoded(image, image_format, **lossless))
    assert corners(decoded)[:2] == [WHITE, RED]


def test_half_transparent_pixels_are_blended():
    content = encoded(Image.new("RGBA", SIZE, (0, 0, 0, 51)), "PNG")
    assert decode_image(content).getpixel((3, 3)) == (204, 204, 204)
    content = encoded(Image.new("LA", SIZE, (0, 0)), "PNG")
    assert decode_image(content).getpixel((3, 3)) == WHITE


@pytest.mark.parametrize("image_format", ["PNG", "GIF"])
def test_a_transparent_palette_entry_is_white(image_format):
    image = Image.new("P", SIZE, 0)
    image.putpalette([0, 0, 0, 255, 0, 0])
    image.paste(1, (8, 0, 16, 8))
    assert corners(decode_image(encoded(image, image_format)))[:2] == [BLACK, RED]
    decoded = decode_image(encoded(image, image_format, transparency=0))
    assert corners(decoded)[:2] == [WHITE, RED]


def test_a_transparent_colour_is_white():
    image = Image.new("RGB", SIZE, (1, 2, 3))
    image.paste(RED, (8, 0, 16, 8))
    decoded = decode_image(encoded(image, "PNG", transparency=(1, 2, 3)))
    assert corners(decoded)[:2] == [WHITE, RED]


@pytest.mark.parametrize("image_format", ["PNG", "TIFF"])
def test_16_bit_grey_is_scaled_and_not_clipped(image_format):
    values = np.array([[0, 128, 257, 32_768, 65_535]], np.uint16).repeat(4, axis=0)
    decoded = decode_image(encoded(Image.fromarray(values), image_format))
    assert np.asarray(decoded)[0].tolist() == [[v] * 3 for v in (0, 0, 1, 128, 255)]


def test_16_bit_grey_with_a_transparent_value():
    image = Image.fromarray(np.full((4, 4), 1_000, np.uint16))
    content = bytearray(encoded(image, "PNG"))
    chunk = b"tRNS" + (1_000).to_bytes(2, "big")
    at = content.index(b"IDAT") - 4
    content[at:at] = b"\0\0\0\2" + chunk + zlib.crc32(chunk).to_bytes(4, "big")
    assert decode_image(bytes(content)).getpixel((0, 0)) == WHITE


def test_fractions_and_large_numbers_are_scaled():
    fractions = Image.fromarray(np.array([[0, 0.5, 1]], np.float32))
    assert np.asarray(decode_image(encoded(fractions, "TIFF")))[0, :, 0].tolist() == [0, 128, 255]
    large = Image.fromarray(np.array([[-1_000_000, 0, 1_000_000]], np.int32))
    assert np.asarray(decode_image(encoded(large, "TIFF")))[0, :, 0].tolist() == [0, 128, 255]
    broken = Image.fromarray(np.array([[np.nan, 0, np.inf]], np.float32))
    assert decode_image(encoded(broken, "TIFF")).size == (3, 1)


@pytest.mark.parametrize(("mode", "image_format"), [
    ("1", "PNG"), ("1", "BMP"), ("P", "GIF"), ("P", "BMP"), ("CMYK", "JPEG"), ("CMYK", "TIFF"),
    ("RGB", "WEBP"), ("RGB", "BMP"), ("L", "TIFF"),
])  # fmt: skip
def test_other_kinds_of_pixels_show_their_colour(mode, image_format):
    content = encoded(Image.new("RGB", SIZE, "white").convert(mode), image_format)
    assert image_size(content) == SIZE
    decoded = decode_image(content)
    assert decoded.mode == "RGB"
    assert corners(decoded) == [WHITE] * 4


def test_what_is_kept_can_be_decoded_and_the_other_way_round():
    lab = encoded(Image.new("LAB", SIZE), "TIFF")
    for function in (image_size, decode_image):
        with pytest.raises(UndecodableImageError, match="LAB"):
            function(lab)


@pytest.mark.parametrize("image_format", ["GIF", "PNG", "WEBP", "TIFF"])
def test_an_animation_shows_its_first_frame(image_format):
    frames = [Image.new("RGB", SIZE, colour) for colour in ("red", "blue")]
    lossless = {"lossless": True} if image_format == "WEBP" else {}
    content = encoded(frames[0], image_format, save_all=True, append_images=frames[1:], **lossless)
    assert image_size(content) == SIZE
    assert corners(decode_image(content)) == [RED] * 4


@pytest.mark.parametrize(
    "image_format", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF"]
)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.9])
def test_a_truncated_image_is_refused_in_both_places(image_format, share):
    content = encoded(noise(), image_format)
    cut = content[: int(len(content) * share)]
    for function in (image_size, decode_image):
        with pytest.raises(UndecodableImageError) as caught:
            function(cut)
        assert "0x" not in str(caught.value)


@pytest.mark.parametrize("content", [
    b"<html>404</html>", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"%PDF-1.4", b"8BPS\0\1", b"SIMPLE  = ",
])  # fmt: skip
def test_other_files_are_not_opened_whatever_pillow_can_read(content):
    with pytest.raises(UndecodableImageError, match="none of JPEG"):
        image_size(content + bytes(500))


@pytest.mark.parametrize(("brand", "name"), [(b"heic", "HEIC"), (b"mif1", "HEIF")])
def test_a_format_without_a_reader_is_named(brand, name):
    with pytest.raises(UndecodableImageError, match=f"is {name}, .* convert it to JPEG"):
        image_size(b"\0\0\0\x18ftyp" + brand + bytes(500))


def test_ghostscript_is_never_started(monkeypatch):
    drawing = encoded(Image.new("RGB", SIZE), "EPS")
    assert Image.open(io.BytesIO(drawing)).format == "EPS"

    def start(*_: Any, **__: Any) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(UndecodableImageError, match="none of JPEG"):
        decode_image(drawing)


def test_the_limit_of_pixels_is_the_callers():
    """Pillow's own limit, its warnings and the filters of warnings are as they were."""
    content = encoded(Image.new("1", (300, 200)), "PNG")
    limit, filters = Image.MAX_IMAGE_PIXELS, list(warnings.filters)
    assert image_size(content, max_pixels=60_000) == (300, 200)
    for function in (image_size, decode_image):
        for most in (59_999, 40_000):
            with pytest.raises(TooManyPixelsError, match=f"limit of {most}"):
                function(content, max_pixels=most)
        # Above twice the limit Pillow itself refuses, by an error that is no OSError.
        with pytest.raises(TooManyPixelsError, match="60000 pixels are over the limit of 20000"):
            function(content, max_pixels=20_000)
    assert (limit, filters) == (Image.MAX_IMAGE_PIXELS, warnings.filters)


@pytest.mark.parametrize("size", [(1, 65_500), (65_500, 1), (1, 10_000_000)])
def test_a_picture_too_narrow_to_be_resized_is_refused(size):
    # At 224 pixels the first would have 3 billion, and the last a side that Pillow cannot count.
    content = encoded(Image.new("1", size), "PNG")
    for function in (image_size, decode_image):
        with pytest.raises(ExtremeShapeError, match="times the other"):
            function(content)


def test_the_limit_of_shape_is_the_callers():
    content = encoded(Image.new("1", (2, 2 * MAX_ASPECT_RATIO)), "PNG")
    assert image_size(content) == decode_image(content).size == (2, 2 * MAX_ASPECT_RATIO)
    for function in (image_size, decode_image):
        with pytest.raises(ExtremeShapeError):
            function(content, max_ratio=MAX_ASPECT_RATIO - 0.5)


@pytest.mark.parametrize(("image_format", "place", "numbers"), [
    ("GIF", 6, struct.pack("<HH", 65_535, 65_535)),
    ("BMP", 18, struct.pack("<ii", 60_000, 60_000)),
    ("WEBP", 24, (59_999).to_bytes(3, "little") * 2),
])  # fmt: skip
def test_a_size_that_a_header_only_claims_is_refused(image_format, place, numbers):
    frames = [Image.new("RGB", SIZE, colour) for colour in ("red", "blue")]
    options = {} if image_format == "BMP" else {"save_all": True, "append_images": frames[1:]}
    content = bytearray(encoded(frames[0], image_format, **options))
    content[place : place + len(numbers)] = numbers
    for limit in (89_478_485, 3_000_000_000):
        with pytest.raises(TooManyPixelsError):
            image_size(bytes(content), limit)


BOMB = """
import io, resource, struct, sys, tracemalloc, zlib
from mispair.pairs.shards.images import TooManyPixelsError, decode_image, image_size

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

side = 20_000
packer = zlib.compressobj(9)
row = 1 + 4 * side
begin, one = packer.compress(b""), packer.compress(bytes(row)) + packer.flush(zlib.Z_FULL_FLUSH)
# The same compressed row again and again, the last block, and the checksum of so many zeros.
rows = begin + one * side + b"\\x03\\x00" + struct.pack(">HH", row * side % 65521, 1)

def png(height):
    head = struct.pack(">IIBBBBB", side, height, 8, 6, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", rows), chunk(b"IEND", b"")
    return b"\\x89PNG\\r\\n\\x1a\\n" + b"".join(parts)

bomb = png(side)
image_size(png(1), max_ratio=side)  # what Pillow loads on first use does not count
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tracemalloc.start()
for function in (image_size, decode_image):
    for limit in (89_478_485, 300_000_000):  # above and below twice the limit
        try:
            function(bomb, limit)
        except TooManyPixelsError as error:
            assert "pixels" in str(error)
        else:
            sys.exit("not refused")
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(tracemalloc.get_traced_memory()[1], after - before)
"""


def test_a_bomb_is_refused_before_it_costs_memory():
    # 20,000 x 20,000 pixels of 4 bytes would take 1.6 GB.
    run = subprocess.run([sys.executable, "-c", BOMB], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    python_bytes, process_kib = map(int, run.stdout.split())
    assert python_bytes < 8e6
    assert process_kib < 16_000
