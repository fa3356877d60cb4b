"""Rendering of generated scenes: drawn at three times the size and averaged for smooth edges."""

import math

import numpy as np
from PIL import Image, ImageDraw

from mispair.pairs.corruption.draws import Draws
from mispair.pairs.scenes.scene_captions import SHAPES, Part
from mispair.pairs.scenes.scene_digits import draw_digit

OVERSAMPLING = 3

Colour = tuple[int, int, int]
Points = list[tuple[float, float]]

COLOUR_VALUES: dict[str, Colour] = {
    "red": (214, 28, 36),
    "orange": (247, 132, 18),
    "yellow": (248, 222, 34),
    "green": (38, 156, 52),
    "cyan": (36, 204, 212),
    "blue": (32, 66, 214),
    "purple": (122, 34, 164),
    "pink": (248, 140, 188),
}
BACKGROUND_VALUES: dict[str, Colour] = {
    "": (214, 205, 192),
    "white": (252, 252, 252),
    "black": (18, 18, 20),
    "grey": (132, 132, 134),
}
_RADIUS = {"small": 0.17, "": 0.25, "large": 0.35}
_DIGIT_HEIGHT = {"small": 0.38, "": 0.56, "large": 0.8}
_DIRECTION = {"": (0, 0), "left": (-1, 0), "right": (1, 0), "top": (0, -1), "bottom": (0, 1)}


def _first(part: Part, kind: str) -> str:
    values = part.get(kind, ())
    return values[0] if values else ""


def _circle(radius: float, steps: int, turn: float = 0.0) -> np.ndarray:
    angles = turn + np.arange(steps) * (2 * math.pi / steps)
    return radius * np.stack([np.sin(angles), -np.cos(angles)], axis=1)


def _outlines() -> dict[str, np.ndarray]:
    """Return the outline of each shape as points (n, 2) within the unit circle, y down."""
    arm = 0.3
    star = _circle(1.0, 10)
    star[1::2] *= 0.42
    t = np.linspace(0, 2 * math.pi, 48, endpoint=False)
    heart = np.stack(
        [
            16 * np.sin(t) ** 3,
            -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)),
        ],
        axis=1,
    )
    outer = np.linspace(-0.62 * math.pi, 0.62 * math.pi, 32)
    inner = np.linspace(0.5 * math.pi, -0.5 * math.pi, 24)
    tip_x, tip_y = math.cos(0.62 * math.pi), math.sin(0.62 * math.pi)
    crescent = np.concatenate(
        [
            np.stack([np.cos(outer), np.sin(outer)], axis=1),
            np.stack([tip_x + 0.75 * np.cos(inner), tip_y * np.sin(inner)], axis=1),
        ]
    )
    cross = [(-1, -arm), (-arm, -arm), (-arm, -1), (arm, -1), (arm, -arm), (1, -arm)]
    ring_inner = _circle(0.55, 40)[::-1]
    outlines = {
        "circle": _circle(0.95, 40),
        "square": _circle(1.1, 4, math.pi / 4),
        "triangle": _circle(1.15, 3) + np.array([0.0, 0.2]),
        "star": 1.12 * star,
        "cross": np.array(cross + [(-x, -y) for x, y in cross]),
        "heart": heart / 15.5,
        # The outline runs round the outside, crosses over, and comes back round the hole.
        "ring": np.concatenate([_circle(1.0, 40), _circle(1.0, 1), ring_inner[-1:], ring_inner]),
        "crescent": crescent * 1.02 - np.array([0.25, 0.0]),
    }
    assert set(outlines) == set(SHAPES)
    return outlines


_OUTLINES = _outlines()


def _jittered(colour: Colour, draws: Draws, spread: float) -> Colour:
    shade = draws.uniform(-spread, spread)
    red, green, blue = (
        min(255, max(0, round(value + shade + draws.uniform(-0.4, 0.4) * spread)))
        for value in colour
    )
    return red, green, blue


def _mixed(colour: Colour, second: Colour, share: float) -> Colour:
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(colour, second, strict=True))
    return red, green, blue


def render(objects: list[Part], whole: Part, draws: Draws, size: int) -> Image.Image:
    """Draw a scene as an RGB picture of `size` by `size` pixels.

    An object without shape is a digit. Colour, place, size and turn vary a little.
    """
    side = size * OVERSAMPLING
    background = _first(whole, "background")
    canvas = _background(background, draws, side)
    pen = ImageDraw.Draw(canvas)
    shadow = bool(whole.get("shadow"))
    for part, (x, y, radius) in zip(objects, _places(objects, whole, draws), strict=True):
        centre = (x * side, y * side)
        if "shape" in part:
            _draw_shape(canvas, pen, part, centre, radius * side, draws, shadow)
            if "digit" in part:
                _print_digit(canvas, part, centre, 0.48 * side, draws)
        else:
            height = radius if len(objects) == 1 else 2 * radius
            _draw_digit(canvas, part, centre, height * side, draws, background, shadow)
    if whole.get("frame"):
        width = round(side * 0.045)
        ink = (235, 235, 235) if background == "black" else (28, 28, 30)
        pen.rectangle((0, 0, side - 1, side - 1), outline=ink, width=width)
    return canvas.reduce(OVERSAMPLING)


def _places(objects: list[Part], whole: Part, draws: Draws) -> list[tuple[float, float, float]]:
    """Return centre and radius (of a digit alone: height) of each object, as shares of the side."""

    def near(value: float) -> float:
        return value + draws.uniform(-0.02, 0.02)

    if len(objects) > 1:
        radius = 0.21 if len(objects) == 2 else 0.15
        along = [(i + 0.5) / len(objects) for i in range(len(objects))]
        if _first(whole, "arrangement") == "row":
            return [(near(offset), near(0.5), radius) for offset in along]
        return [(near(0.5), near(offset), radius) for offset in along]
    part = objects[0]
    size = _first(part, "size")
    if "shape" not in part:
        radius = _DIGIT_HEIGHT[size] * draws.uniform(0.95, 1.05)
        reach = 0.5 - 0.45 * radius
    else:
        radius = 0.4 if "digit" in part else _RADIUS[size] * draws.uniform(0.94, 1.06)
        reach = 0.5 - 0.9 * radius
    dx, dy = _DIRECTION[_first(whole, "position")]
    shift = min(0.24, reach)
    return [(near(0.5 + shift * dx), near(0.5 + shift * dy), radius)]


def _background(name: str, draws: Draws, side: int) -> Image.Image:
    if name == "checkered":
        cells = draws.choose((6, 8))
        pattern = np.indices((cells, cells)).sum(axis=0) % 2
        small = Image.fromarray(np.where(pattern, 236, 176).astype(np.uint8))
        return small.resize((side, side), Image.Resampling.NEAREST).convert("RGB")
    if name == "faded":
        ramp = np.linspace(250, 70, 32).astype(np.uint8)[:, None]
        if draws.chance(0.5):
            ramp = ramp[::-1]
        if draws.chance(0.5):
            ramp = ramp.T
        small = Image.fromarray(np.ascontiguousarray(ramp))
        return small.resize((side, side), Image.Resampling.BILINEAR).convert("RGB")
    if name == "speckled":
        canvas = Image.new("RGB", (side, side), _jittered((206, 206, 204), draws, 6))
        pen = ImageDraw.Draw(canvas)
        grain = side / 64
        for _ in range(70):
            x, y, r = draws.unit() * side, draws.unit() * side, draws.uniform(0.6, 1.1) * grain
            pen.rectangle((x - r, y - r, x + r, y + r), fill=(84, 84, 86))
        return canvas
    return Image.new("RGB", (side, side), _jittered(BACKGROUND_VALUES[name], draws, 6))


def _outline(shape: str, centre: tuple[float, float], radius: float, turn: float) -> Points:
    cos, sin = radius * math.cos(turn), radius * math.sin(turn)
    points = _OUTLINES[shape] @ np.array([[cos, sin], [-sin, cos]]) + np.array(centre)
    return [(x, y) for x, y in points.tolist()]


def _draw_shape(
    canvas: Image.Image,
    pen: ImageDraw.ImageDraw,
    part: Part,
    centre: tuple[float, float],
    radius: float,
    draws: Draws,
    shadow: bool,
) -> None:
    shape, texture = _first(part, "shape"), _first(part, "texture")
    colour = _jittered(COLOUR_VALUES[_first(part, "colour")], draws, 12)
    points = _outline(shape, centre, radius, draws.uniform(-0.2, 0.2))
    if shadow:
        offset = 0.16 * radius
        pen.polygon([(x + offset, y + offset) for x, y in points], fill=(64, 64, 68))
    if not texture:
        pen.polygon(points, fill=colour)
        return
    reach = math.ceil(radius * 1.25)
    left, top = round(centre[0]) - reach, round(centre[1]) - reach
    mask = Image.new("L", (2 * reach, 2 * reach))
    ImageDraw.Draw(mask).polygon([(x - left, y - top) for x, y in points], fill=255)
    canvas.paste(_textured(texture, colour, 2 * reach, radius, draws), (left, top), mask)


def _textured(texture: str, colour: Colour, side: int, radius: float, draws: Draws) -> Image.Image:
    fill = Image.new("RGB", (side, side), colour)
    pen = ImageDraw.Draw(fill)
    if texture == "striped":
        dark = _mixed(colour, (0, 0, 0), 0.45)
        step = max(6.0, 0.4 * radius)
        for i in range(-1, math.ceil(2 * side / step)):
            x = i * step + draws.uniform(0.0, 0.08) * step
            pen.line((x, 0, x - side, side), fill=dark, width=round(0.42 * step))
    elif texture == "dotted":
        light = _mixed(colour, (255, 255, 255), 0.75)
        step = max(6.0, 0.42 * radius)
        dot = 0.26 * step
        for i in range(math.ceil(side / step) + 1):
            for j in range(math.ceil(side / step) + 1):
                x, y = (i + 0.5 * (j % 2)) * step, j * step
                pen.ellipse((x - dot, y - dot, x + dot, y + dot), fill=light)
    else:
        for share, reach in ((0.25, 0.62), (0.5, 0.46), (0.85, 0.28)):
            x = y = side / 2 - 0.35 * radius
            spot = reach * radius
            light = _mixed(colour, (255, 255, 255), share)
            pen.ellipse((x - spot, y - spot, x + spot, y + spot), fill=light)
    return fill


def _ink(background: str, draws: Draws) -> Colour:
    """Return black or white, whichever is legible; grey and faded grounds take either."""
    if background == "black" or (background in ("grey", "faded") and draws.chance(0.5)):
        return _jittered((244, 244, 244), draws, 8)
    return _jittered((20, 20, 22), draws, 8)


def _draw_digit(
    canvas: Image.Image,
    part: Part,
    centre: tuple[float, float],
    height: float,
    draws: Draws,
    background: str,
    shadow: bool,
) -> None:
    colour = _first(part, "colour")
    ink = _jittered(COLOUR_VALUES[colour], draws, 12) if colour else _ink(background, draws)
    glyph = draw_digit(_first(part, "digit"), height, draws, pixelated=bool(part.get("print")))
    corner = (round(centre[0] - glyph.width / 2), round(centre[1] - glyph.height / 2))
    if shadow:
        offset = round(0.06 * height)
        canvas.paste((96, 96, 100), (corner[0] + offset, corner[1] + offset), glyph)
    canvas.paste(ink, corner, glyph)


def _print_digit(
    canvas: Image.Image, part: Part, centre: tuple[float, float], height: float, draws: Draws
) -> None:
    """Print a digit on an object, white or black, with a contrasting shade around it."""
    glyph = draw_digit(_first(part, "digit"), height, draws, pixelated=bool(part.get("print")))
    corner = (round(centre[0] - glyph.width / 2), round(centre[1] - glyph.height / 2))
    light = draws.chance(0.5)
    ink, shade = ((250, 250, 250), (20, 20, 20)) if light else ((16, 16, 16), (240, 240, 240))
    offset = max(2, round(0.04 * height))
    for dx, dy in ((-offset, 0), (offset, 0), (0, -offset), (0, offset)):
        canvas.paste(shade, (corner[0] + dx, corner[1] + dy), glyph)
    canvas.paste(ink, corner, glyph)


# Real handwritten digits (scikit-learn's) as pictures.

INK = (28, 28, 30)
HEIGHT = 0.6
"""Share of the picture's side that a scan takes, about that of the corpus's printed digits."""


def handwritten_digits(size: int) -> tuple[list[Image.Image], list[int]]:
    """Return scikit-learn's 1,797 scanned digits as ink on paper, and the digit, 0 to 9, of each.

    The scans have 8 by 8 pixels of 17 grey levels, the amount of ink. The pictures are RGB, `size`
    by `size` pixels: dark ink on the corpus's plain ground, enlarged with smooth edges.

    References
    ----------
    E. Alpaydin and C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine
    Learning Repository (its test set).
    """
    from sklearn.datasets import load_digits

    scans = load_digits()
    inner = round(size * HEIGHT)
    corner = ((size - inner) // 2, (size - inner) // 2)
    paper = Image.new("RGB", (size, size), BACKGROUND_VALUES[""])
    ink = Image.new("RGB", (size, size), INK)
    pictures = []
    for scan in scans.images:
        grey = Image.fromarray(np.round(scan * (255 / 16)).astype(np.uint8))
        cover = Image.new("L", (size, size), 0)
        cover.paste(grey.resize((inner, inner), Image.Resampling.BICUBIC), corner)
        pictures.append(Image.composite(ink, paper, cover))
    return pictures, scans.target.tolist()
