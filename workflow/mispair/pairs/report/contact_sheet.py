"""The contact sheet: sample pairs with their captions before and after shuffling."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
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


def template(name: str) -> jinja2.Template:
    """Return a template of a piece of HTML, which escapes all text from data."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=visible
    )
    source = (files("mispair.report") / "templates" / f"{name}.html.j2").read_text("utf-8")
    return environment.from_string(source)


def fitted(render: Callable[[int], str], most: int) -> str:
    """Return a piece of HTML of `most` samples, or of as many as fit into `LARGEST_SHEET`."""
    while len((html := render(most)).encode()) > LARGEST_SHEET and most:
        most = most * 3 // 4
    return html + "\n"


def fragment(samples: Sequence[Sample], rate: float | None, size: int) -> str:
    """Return the sheet as a piece of HTML; all text from data is escaped.

    `rate` is the shuffle probability C_m of the new captions, None if there is no pairing; `size`
    is the longer side of a thumbnail, in pixels.
    """
    sheet = template("contact_sheet")

    def render(most: int) -> str:
        shown = [(sample, thumbnail(sample.image, size)) for sample in samples[:most]]
        return sheet.render(samples=shown, rate=rate, longest=LONGEST_CAPTION)

    return fitted(render, len(samples))
