"""Digit glyphs in several clearly different fonts, from what Pillow brings and from own strokes."""

from __future__ import annotations

from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mispair.pairs.corruption.draws import Draws
from mispair.pairs.scenes.scene_features import DIGITS

FONTS = ("plain", "bold", "hollow", "segments", "written", "written", "blurred", "pixelated")
"""Ways to draw a digit; "written" stands twice because handwriting varies most."""

_BASE = 72  # height in pixels of the glyphs that are cached before they are fitted
_WRITTEN_HEIGHT = 64

_STROKES: dict[str, list[list[tuple[str, list[tuple[float, float]]]]]] = {
    "zero": [
        [("loop", [(0.5, 0.0), (0.15, 0.2), (0.1, 0.7), (0.45, 1.0), (0.85, 0.8), (0.9, 0.25)])],
        [("loop", [(0.6, 0.0), (0.2, 0.3), (0.15, 0.8), (0.5, 1.0), (0.8, 0.7), (0.85, 0.2)])],
    ],
    "one": [
        [("line", [(0.5, 0.0), (0.5, 1.0)])],
        [("line", [(0.25, 0.25), (0.55, 0.0), (0.55, 1.0)])],
        [("line", [(0.2, 0.3), (0.55, 0.0), (0.55, 1.0)]), ("line", [(0.2, 1.0), (0.9, 1.0)])],
    ],
    "two": [
        [
            (
                "curve",
                [(0.1, 0.25), (0.3, 0.02), (0.7, 0.03), (0.85, 0.28), (0.6, 0.6), (0.1, 1.0)],
            ),
            ("line", [(0.1, 1.0), (0.92, 0.98)]),
        ],
        [
            (
                "curve",
                [
                    (0.12, 0.2),
                    (0.45, 0.0),
                    (0.82, 0.22),
                    (0.62, 0.65),
                    (0.25, 0.98),
                    (0.1, 0.85),
                    (0.35, 0.8),
                    (0.92, 0.97),
                ],
            )
        ],
    ],
    "three": [
        [
            ("curve", [(0.1, 0.12), (0.45, 0.0), (0.82, 0.17), (0.72, 0.4), (0.38, 0.48)]),
            ("curve", [(0.38, 0.48), (0.82, 0.58), (0.86, 0.85), (0.45, 1.0), (0.08, 0.88)]),
        ],
        [
            ("line", [(0.12, 0.03), (0.85, 0.03), (0.45, 0.42)]),
            ("curve", [(0.45, 0.42), (0.85, 0.55), (0.85, 0.88), (0.45, 1.0), (0.08, 0.88)]),
        ],
    ],
    "four": [
        [
            ("line", [(0.62, 0.0), (0.08, 0.66), (0.95, 0.66)]),
            ("line", [(0.68, 0.3), (0.66, 1.0)]),
        ],
        [
            ("line", [(0.2, 0.02), (0.1, 0.5), (0.85, 0.52)]),
            ("line", [(0.8, 0.0), (0.72, 1.0)]),
        ],
        [("line", [(0.68, 1.0), (0.68, 0.02), (0.08, 0.66), (0.95, 0.66)])],
    ],
    "five": [
        [
            ("line", [(0.88, 0.02), (0.22, 0.02), (0.17, 0.43)]),
            (
                "curve",
                [(0.17, 0.43), (0.55, 0.36), (0.88, 0.6), (0.76, 0.92), (0.4, 1.0), (0.08, 0.9)],
            ),
        ],
        [
            ("line", [(0.9, 0.0), (0.35, 0.05), (0.2, 0.48)]),
            ("curve", [(0.2, 0.48), (0.7, 0.45), (0.8, 0.75), (0.5, 0.98), (0.1, 0.98)]),
        ],
    ],
    "six": [
        [
            (
                "curve",
                [
                    (0.72, 0.02),
                    (0.32, 0.28),
                    (0.12, 0.68),
                    (0.32, 0.98),
                    (0.7, 0.95),
                    (0.86, 0.72),
                    (0.6, 0.5),
                    (0.18, 0.68),
                ],
            )
        ],
        [
            (
                "curve",
                [
                    (0.4, 0.0),
                    (0.18, 0.45),
                    (0.2, 0.88),
                    (0.55, 1.0),
                    (0.85, 0.82),
                    (0.65, 0.58),
                    (0.25, 0.72),
                ],
            )
        ],
    ],
    "seven": [
        [("line", [(0.08, 0.03), (0.9, 0.03), (0.4, 1.0)])],
        [("line", [(0.08, 0.05), (0.9, 0.03), (0.45, 1.0)]), ("line", [(0.28, 0.5), (0.85, 0.47)])],
        [("curve", [(0.08, 0.15), (0.4, 0.03), (0.9, 0.05), (0.6, 0.5), (0.45, 1.0)])],
    ],
    "eight": [
        [
            (
                "curve",
                [
                    (0.5, 0.47),
                    (0.2, 0.27),
                    (0.38, 0.02),
                    (0.7, 0.04),
                    (0.8, 0.26),
                    (0.5, 0.47),
                    (0.15, 0.75),
                    (0.4, 1.0),
                    (0.74, 0.96),
                    (0.85, 0.74),
                    (0.5, 0.47),
                ],
            )
        ],
        [
            (
                "loop",
                [
                    (0.85, 0.1),
                    (0.45, 0.02),
                    (0.25, 0.25),
                    (0.55, 0.5),
                    (0.78, 0.8),
                    (0.45, 1.0),
                    (0.2, 0.78),
                    (0.5, 0.48),
                ],
            )
        ],
    ],
    "nine": [
        [
            (
                "curve",
                [
                    (0.82, 0.2),
                    (0.48, 0.0),
                    (0.15, 0.22),
                    (0.3, 0.48),
                    (0.65, 0.45),
                    (0.84, 0.18),
                    (0.78, 0.6),
                    (0.62, 1.0),
                ],
            )
        ],
        [
            (
                "curve",
                [
                    (0.8, 0.15),
                    (0.42, 0.02),
                    (0.18, 0.25),
                    (0.4, 0.48),
                    (0.8, 0.3),
                    (0.85, 0.7),
                    (0.55, 1.0),
                    (0.12, 0.93),
                ],
            )
        ],
    ],
}
"""Pen strokes of each digit, one or more ways to write it; x to the right and y down, in [0, 1]."""

_SEGMENTS = (
    "abcdef",
    "bc",
    "abged",
    "abgcd",
    "fgbc",
    "afgcd",
    "afgcde",
    "abc",
    "abcdefg",
    "abcdfg",
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
    """Draw a digit as a mask (mode L, ink 255) of about the given height in pixels.

    Parameters
    ----------
    digit : str
        Name of the digit, ``zero`` to ``nine``.
    height : float
        Height of the ink in pixels.
    draws : Draws
        Choice of font, stretch, slant and tilt.
    pixelated : bool
        Draw it in few large square pixels; else in one of the other fonts.
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
