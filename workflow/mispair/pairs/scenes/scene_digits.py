"""Digit glyphs in several clearly different fonts, from Pillow's font and from pen strokes."""

from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mispair.pairs.corruption.draws import Draws
from mispair.pairs.scenes.scene_captions import DIGITS

FONTS = ("plain", "bold", "hollow", "segments", "written", "written", "blurred", "pixelated")
"""Ways to draw a digit; "written" occurs twice because handwriting varies most."""

_BASE = 72  # height in pixels of the glyphs that are cached before they are fitted
_WRITTEN_HEIGHT = 64

_PEN = {
    "zero": (
        "loop 50,0 15,20 10,70 45,100 85,80 90,25",
        "loop 60,0 20,30 15,80 50,100 80,70 85,20",
    ),
    "one": (
        "line 50,0 50,100",
        "line 25,25 55,0 55,100",
        "line 20,30 55,0 55,100; line 20,100 90,100",
    ),
    "two": (
        "curve 10,25 30,2 70,3 85,28 60,60 10,100; line 10,100 92,98",
        "curve 12,20 45,0 82,22 62,65 25,98 10,85 35,80 92,97",
    ),
    "three": (
        "curve 10,12 45,0 82,17 72,40 38,48; curve 38,48 82,58 86,85 45,100 8,88",
        "line 12,3 85,3 45,42; curve 45,42 85,55 85,88 45,100 8,88",
    ),
    "four": (
        "line 62,0 8,66 95,66; line 68,30 66,100",
        "line 20,2 10,50 85,52; line 80,0 72,100",
        "line 68,100 68,2 8,66 95,66",
    ),
    "five": (
        "line 88,2 22,2 17,43; curve 17,43 55,36 88,60 76,92 40,100 8,90",
        "line 90,0 35,5 20,48; curve 20,48 70,45 80,75 50,98 10,98",
    ),
    "six": (
        "curve 72,2 32,28 12,68 32,98 70,95 86,72 60,50 18,68",
        "curve 40,0 18,45 20,88 55,100 85,82 65,58 25,72",
    ),
    "seven": (
        "line 8,3 90,3 40,100",
        "line 8,5 90,3 45,100; line 28,50 85,47",
        "curve 8,15 40,3 90,5 60,50 45,100",
    ),
    "eight": (
        "curve 50,47 20,27 38,2 70,4 80,26 50,47 15,75 40,100 74,96 85,74 50,47",
        "loop 85,10 45,2 25,25 55,50 78,80 45,100 20,78 50,48",
    ),
    "nine": (
        "curve 82,20 48,0 15,22 30,48 65,45 84,18 78,60 62,100",
        "curve 80,15 42,2 18,25 40,48 80,30 85,70 55,100 12,93",
    ),
}
"""One or more ways to write each digit: strokes of a form through points x,y.

x goes to the right and y down, in hundredths of the digit's width and height. A line has corners, a
curve is smooth, and a loop is smooth and closed.
"""

Stroke = tuple[str, list[tuple[float, float]]]
"""Form, and points in [0, 1]."""


def _strokes(way: str) -> list[Stroke]:
    """Read one way to write a digit."""
    strokes = []
    for stroke in way.split("; "):
        form, *points = stroke.split()
        pairs = (point.split(",") for point in points)
        strokes.append((form, [(int(x) / 100, int(y) / 100) for x, y in pairs]))
    return strokes


_STROKES = {digit: [_strokes(way) for way in ways] for digit, ways in _PEN.items()}

_SEGMENTS = (
    *("abcdef", "bc", "abged", "abgcd", "fgbc"),
    *("afgcd", "afgcde", "abc", "abcdefg", "abcdfg"),
)
_SEGMENT_LINES = {
    "a": ((0, 0), (1, 0)),
    "b": ((1, 0), (1, 1)),
    "c": ((1, 1), (1, 2)),
    "d": ((0, 2), (1, 2)),
    "e": ((0, 1), (0, 2)),
    "f": ((0, 0), (0, 1)),
    "g": ((0, 1), (1, 1)),
}


def draw_digit(digit: str, height: float, draws: Draws, *, pixelated: bool) -> Image.Image:
    """Draw a digit, ``zero`` to ``nine``, as a mask (mode L, ink 255) of about `height` pixels.

    Font, stretch, slant and tilt are drawn. A pixelated digit has few large square pixels.
    """
    font = "pixelated" if pixelated else draws.choose(FONTS[:-1])
    if font == "written" or (font in ("blurred", "pixelated") and draws.chance(0.5)):
        glyph = _written(digit, draws)
    elif font in ("blurred", "pixelated"):
        glyph = _printed(digit, "bold")
    else:
        glyph = _printed(digit, font)
    stretch = draws.uniform(0.85, 1.3)
    size = (max(6, round(height * glyph.width / glyph.height * stretch)), max(8, round(height)))
    if font in ("pixelated", "blurred"):
        # About eight rows, as the scans of handwriting in scikit-learn have.
        rows = draws.choose((8, 8, 9, 10))
        columns = min(8, max(3, round(rows * size[0] / size[1])))
        coarse = glyph.resize((columns, rows), Image.Resampling.BOX)
        fine = Image.Resampling.NEAREST if font == "pixelated" else Image.Resampling.BICUBIC
        return coarse.resize(size, fine)
    return _tilted(glyph.resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0), draws)


def _tilted(glyph: Image.Image, draws: Draws) -> Image.Image:
    """Slant and turn a glyph a little, on a canvas that holds all of it."""
    slant, turn = draws.uniform(-0.3, 0.3), draws.uniform(-0.14, 0.14)
    width = round(glyph.width + abs(slant) * glyph.height + 0.2 * glyph.height)
    height = round(glyph.height + 0.2 * glyph.width)
    cos, sin = float(np.cos(turn)), float(np.sin(turn))
    a, b, d, e = cos + slant * sin, sin + slant * cos, -sin, cos
    x, y = width / 2, height / 2
    c, f = glyph.width / 2 - a * x - b * y, glyph.height / 2 - d * x - e * y
    return glyph.transform(
        (width, height), Image.Transform.AFFINE, (a, b, c, d, e, f), Image.Resampling.BILINEAR
    )


@cache
def _printed(digit: str, font: str) -> Image.Image:
    number = DIGITS.index(digit)
    if font == "segments":
        width, gap = 14, 30
        glyph = Image.new("L", (2 * gap, 2 * gap + 2 * gap))
        pen = ImageDraw.Draw(glyph)
        for segment in _SEGMENTS[number]:
            ends = [(15 + gap * x, 15 + gap * y) for x, y in _SEGMENT_LINES[segment]]
            pen.line(ends, fill=255, width=width)
            for x, y in ends:
                half = width / 2
                pen.rectangle((x - half, y - half, x + half, y + half), fill=255)
        return glyph.crop(glyph.getbbox())
    face = ImageFont.load_default(_BASE)
    stroke = {"plain": 0, "bold": 5, "hollow": 5}[font]
    glyph = Image.new("L", (2 * _BASE, 2 * _BASE))
    corner = (_BASE // 2, _BASE // 4)
    pen = ImageDraw.Draw(glyph)
    pen.text(corner, str(number), fill=255, font=face, stroke_width=stroke, stroke_fill=255)
    if font == "hollow":
        pen.text((corner[0], corner[1]), str(number), fill=0, font=face)
    return glyph.crop(glyph.getbbox())


def _written(digit: str, draws: Draws) -> Image.Image:
    """Draw a digit with pen strokes whose points are moved at random."""
    aspect = draws.uniform(0.55, 0.95)
    thickness = draws.uniform(0.09, 0.19) * _WRITTEN_HEIGHT
    margin = thickness / 2 + 1
    width, height = aspect * _WRITTEN_HEIGHT, _WRITTEN_HEIGHT
    glyph = Image.new("L", (round(width + 2 * margin) + 8, round(height + 2 * margin) + 8))
    pen = ImageDraw.Draw(glyph)
    for form, points in draws.choose(_STROKES[digit]):
        moved = [
            (
                margin + 4 + width * (x + draws.uniform(-0.06, 0.06)),
                margin + 4 + height * (y + draws.uniform(-0.04, 0.04)),
            )
            for x, y in points
        ]
        path = moved if form == "line" else _smooth(moved, closed=form == "loop")
        pen.line(path, fill=255, width=round(thickness), joint="curve")
        half = thickness / 2
        for x, y in (path[0], path[-1]):
            pen.ellipse((x - half, y - half, x + half, y + half), fill=255)
    return glyph.crop(glyph.getbbox())


_STEPS = np.linspace(0.0, 1.0, 6)[:-1, None]
_BASIS = np.hstack([_STEPS**power for power in range(4)]) @ np.array(
    [[0, 2, 0, 0], [-1, 0, 1, 0], [2, -5, 4, -1], [-1, 3, -3, 1]]
)


def _smooth(points: list[tuple[float, float]], *, closed: bool) -> list[tuple[float, float]]:
    """Return a Catmull-Rom curve through the points."""
    if closed:
        padded = np.array([points[-1], *points, points[0], points[1]])
    else:
        padded = np.array([points[0], *points, points[-1]])
    windows = np.stack([padded[i : len(padded) - 3 + i] for i in range(4)])
    curve = 0.5 * np.einsum("sk,knc->nsc", _BASIS, windows).reshape(-1, 2)
    return [(x, y) for x, y in [*curve.tolist(), padded[-2].tolist()]]
