"""The gallery of old and new captions, each pair with its picture."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mispair.pairs.report.contact_sheet import LARGEST_SHEET, template, thumbnail
from mispair.repair.report.claims import FILTERS, LABELS

SIZES = (96, 72, 48)
"""Longer sides of a picture, in pixels. The first with which the gallery is small enough is taken:
no pair is left out."""


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
    order = [*FILTERS, *LABELS]
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
