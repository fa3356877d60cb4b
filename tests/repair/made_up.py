"""Captioners of a user: what they do depends on the colour of the first picture."""

import os
import time
from pathlib import Path
from typing import Any

from PIL import Image

CALLS = "MADE_UP_CALLS"
"""Environment variable with a file to which each call writes its number of pictures."""


def colour(image: Image.Image) -> tuple[int, int, int]:
    return image.resize((1, 1)).getpixel((0, 0))


def colours(images: list[Image.Image], seeds: list[int]) -> list[list[str]]:
    """Name the red share of each picture, and its seed."""
    if CALLS in os.environ:
        with Path(os.environ[CALLS]).open("a") as calls:
            calls.write(f"{len(images)}\n")
    return [
        [f"red {colour(image)[0]} seed {seed}"] for image, seed in zip(images, seeds, strict=True)
    ]


def fails(images: list[Image.Image], seeds: list[int]) -> Any:
    """Do to some batches what captioners should not do, by the red of their first picture."""
    red = colour(images[0])[0]
    if red < 20:
        raise RuntimeError("no caption for so little red")
    if red < 40:
        time.sleep(60)
    if red < 60:
        return colours(images[1:], seeds[1:])
    if red < 80:
        return [[b"bytes"] for _ in images]
    if red < 100:
        return [None for _ in images]
    if red < 120:
        os._exit(3)
    return colours(images, seeds)


def poor(images: list[Image.Image], seeds: list[int]) -> list[list[str]]:
    """Return captions that are unusable or odd, but for the second of some."""
    return [
        ["", "a\x00red\tstar\n"] if colour(image)[0] > 120 else ["no no no"] for image in images
    ]


def nothing(images: list[Image.Image], seeds: list[int]) -> list[list[str]]:
    """Return no caption at all for each picture."""
    return [[] for _ in images]


def repeats(images: list[Image.Image], seeds: list[int]) -> list[list[str]]:
    """Return the same words again and again."""
    return [["a hat on " * 9] for _ in images]


number = 3
