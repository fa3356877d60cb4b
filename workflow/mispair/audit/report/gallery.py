"""The gallery of pairs that are likely wrong, and of those that could be either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

import jinja2

from mispair.pairs.report.contact_sheet import (
    LARGEST_SHEET,
    LONGEST_CAPTION,
    thumbnail,
    visible,
)


@dataclass(frozen=True)
class Suspect:
    """A pair: its key, its encoded image, its caption, and the probability that it is wrong."""

    key: str
    image: bytes | None
    caption: str
    probability: float


def fragment(groups: Mapping[str, Sequence[Suspect]], size: int) -> str:
    """Return the gallery as a piece of HTML; all text from data is escaped.

    Parameters
    ----------
    groups : mapping of str to sequence of Suspect
        Pairs by kind. Fewer are shown if they would take too much room.
    size : int
        Longer side of a thumbnail, in pixels.
    """
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=visible
    )
    source = (files("mispair.report") / "templates" / "suspects.html.j2").read_text("utf-8")
    template = environment.from_string(source)
    most = max(map(len, groups.values()), default=0)
    while True:
        html = template.render(
            groups={
                kind: [(suspect, thumbnail(suspect.image, size)) for suspect in suspects[:most]]
                for kind, suspects in groups.items()
            },
            longest=LONGEST_CAPTION,
        )
        if len(html.encode()) <= LARGEST_SHEET or not most:
            return html + "\n"
        most = most * 3 // 4
