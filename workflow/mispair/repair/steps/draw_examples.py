"""Lay out old and new captions of some pairs of a repair, each pair with its picture."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mispair.core import settings
from mispair.repair.rules import RULES

log = logging.getLogger(__name__)

SIZES = (96, 72, 48)
"""Longer sides of a picture, in pixels. The first with which the gallery is small enough is taken:
no pair is left out."""


class Settings(settings.Settings):
    """`draw_examples` has no settings: filter_captions chooses the pairs."""


def run(
    settings: Settings, *, ledgers: list[Path], index: list[Path], shards: list[Path],
    sources: list[str], examples: Path,
) -> None:  # fmt: skip
    """Write a piece of HTML; only the images of the shown pairs are read from shards."""
    from mispair.core import files, metrics
    from mispair.pairs.report.contact_sheet import alone, images_of

    shown = chosen([metrics.read_metrics(path)[1] for path in ledgers])
    keys = list({one["key"] for one in shown.examples} if shown else [])
    html = fragment(shown, images_of(keys, index, shards, sources))
    files.write_text(examples, alone(html, "Old and new captions"))
    log.info("%d pairs", len(keys))


class ShownExamples(NamedTuple):
    """Old and new captions of a rule: ``sample``, ``key``, ``old``, ``new``, ``action``."""

    rule: str
    rate: float
    examples: Sequence[Mapping[str, str]]


def chosen(ledgers: Sequence[Mapping[str, Any]]) -> ShownExamples | None:
    """Return the examples of the first filter that replaced captions, at the smallest rate.

    `ledgers` are the metadata of ledgers. Where no rule replaced any, the examples are captions
    that were kept or dropped. None without examples.
    """
    found = [ShownExamples(one["repair"], float(one["nominal"]), one["examples"])
             for one in ledgers if one.get("examples")]  # fmt: skip
    replacing = [of for of in found if any(one["action"] == "replaced" for one in of.examples)]
    order = [*(name for name, rule in RULES.items() if rule.filters), *RULES]
    return min(replacing or found, key=lambda of: (of.rate, order.index(of.rule)), default=None)


def fragment(shown: ShownExamples | None, images: Mapping[str, bytes]) -> str:
    """Return the gallery as a piece of HTML; all text from data is escaped.

    Parameters
    ----------
    shown : ShownExamples or None
        The pairs.
    images : mapping of str to bytes
        Encoded images by key.
    """
    from mispair.pairs.report.contact_sheet import LARGEST_SHEET, template, thumbnail

    gallery, html = template("examples"), ""
    samples: dict[str, list[Mapping[str, str]]] = {}
    for one in shown.examples if shown else []:
        samples.setdefault(one["sample"], []).append(one)
    for size in SIZES:
        pictures = {one["key"]: thumbnail(images.get(one["key"]), size)
                    for of in samples.values() for one in of}  # fmt: skip
        html = gallery.render(shown=shown, samples=samples, pictures=pictures) + "\n"
        if len(html.encode()) <= LARGEST_SHEET:
            break
    return html
