"""The contact sheet: sample pairs with their captions before and after shuffling."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import jinja2

from mispair.pairs.captions.decoding import CONTROL
from mispair.pairs.shards.images import UndecodableImageError, decode_image

LONGEST_CAPTION = 280
"""Characters of a caption that are shown."""

LARGEST_SHEET = 150_000
"""Bytes of a contact sheet; samples that would exceed it are left out."""


@dataclass(frozen=True)
class Sample:
    """A pair: its key, its encoded image (None if it is not there), its caption and its new one."""

    key: str
    image: bytes | None
    caption: str
    shuffled: str
    swapped: bool


def thumbnail(encoded: bytes | None, size: int) -> str | None:
    """Return an image as a JPEG data URI of longer side `size`; None if it cannot be decoded."""
    if encoded is None:
        return None
    try:
        image = decode_image(encoded)
    except UndecodableImageError:
        return None
    image.thumbnail((size, size))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def visible(value: object) -> object:
    """Return a text with its control characters replaced: HTML does not allow them."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", value) if type(value) is str else value


def fragment(samples: Sequence[Sample], rate: float | None, size: int) -> str:
    """Return the sheet as a piece of HTML; all text from data is escaped.

    `rate` is the shuffle probability C_m of the new captions, None if there is no pairing; `size`
    is the longer side of a thumbnail, in pixels.
    """
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=visible
    )
    source = (files("mispair.report") / "templates" / "contact_sheet.html.j2").read_text("utf-8")
    template = environment.from_string(source)
    shown = list(samples)
    while True:
        html = template.render(
            samples=[(sample, thumbnail(sample.image, size)) for sample in shown],
            rate=rate,
            longest=LONGEST_CAPTION,
        )
        if len(html.encode()) <= LARGEST_SHEET or not shown:
            return html + "\n"
        shown = shown[: len(shown) * 3 // 4]
