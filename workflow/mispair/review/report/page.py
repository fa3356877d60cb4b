"""The page on which a person labels captions: one file that works without a network."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from mispair.pairs.report.contact_sheet import decoded, jpeg_uri
from mispair.report.markup import safe_json
from mispair.review.labels import LABELS, OF_REPAIRS

LARGEST = 24_000_000
"""Bytes that the pictures of a page may take; its texts come on top."""

LADDER = (
    (640, 85), (640, 75), (640, 65), (512, 75), (512, 60), (384, 70), (384, 55), (320, 55),
    (256, 55), (192, 50), (128, 45),
)  # fmt: skip
"""Longer sides (pixels) and JPEG qualities of pictures. The first that is small enough is taken."""


@dataclass(frozen=True)
class ReviewQuestion:
    """A question about each pair of a sample.

    Attributes
    ----------
    name, title : str
        For addresses and for the button that selects it.
    question : str
        What a person decides.
    answers : tuple of dict
        Of each button ``words`` and ``key``, and the ``label`` that it gives; instead of it
        ``text``, the number of a caption whose label is taken. ``swipe`` is left or right.
    takes : tuple of str
        The labels.
    shares : tuple of dict
        Shares that the page estimates: ``words`` and ``label``.
    file : str
        Name of the CSV.
    """

    name: str
    title: str
    question: str
    answers: tuple[dict[str, Any], ...]
    takes: tuple[str, ...]
    shares: tuple[dict[str, str], ...]
    file: str


CAPTIONS = ReviewQuestion(
    "captions",
    "Captions",
    "Does the caption describe the picture?",
    (
        {"words": "Wrong", "key": "w", "label": "wrong", "swipe": "left"},
        {"words": "Unsure", "key": "u", "label": "unsure"},
        {"words": "Right", "key": "r", "label": "right", "swipe": "right"},
    ),
    LABELS,
    ({"words": "Wrong", "label": "wrong"},),
    "review.csv",
)
REPAIRS = ReviewQuestion(
    "repairs",
    "Repaired captions",
    "Which caption describes the picture?",
    (
        {"words": "A", "key": "a", "text": 0, "swipe": "left"},
        {"words": "Both", "key": "o", "label": "both"},
        {"words": "Neither", "key": "n", "label": "neither"},
        {"words": "B", "key": "b", "text": 1, "swipe": "right"},
    ),
    OF_REPAIRS,
    ({"words": "Improved", "label": "new"}, {"words": "Harmed", "label": "old"}),
    "review-repairs.csv",
)


@dataclass(frozen=True)
class ReviewedPair:
    """A pair on the page: its key, its texts, the label of each, and its stratum."""

    key: str
    texts: tuple[str, ...]
    fits: tuple[str, ...] = ()
    stratum: int = 0


@dataclass(frozen=True)
class QuestionnairePart:
    """The pairs of a question in the order in which they are shown, and the sizes of the strata.

    Browsers keep the answers under `digest`, that of the draw.
    """

    question: ReviewQuestion
    digest: str
    pairs: Sequence[ReviewedPair]
    strata: Sequence[int]


def of_captions(
    sample: pd.DataFrame, strata: Sequence[Mapping[str, int]], digest: str
) -> QuestionnairePart:
    """Return the sample of captions, from ``key``, ``caption``, ``stratum`` and ``order``."""
    rows = sample.sort_values("order", kind="stable")
    pairs = [
        ReviewedPair(key, (caption,), stratum=int(stratum))
        for key, caption, stratum in zip(
            rows["key"], rows["caption"], rows["stratum"], strict=True
        )
    ]  # fmt: skip
    return QuestionnairePart(CAPTIONS, digest, pairs, [int(one["pairs"]) for one in strata])


def of_repairs(replaced: pd.DataFrame, number: int) -> QuestionnairePart:
    """Return the sample of `number` replaced captions: ``key``, ``old``, ``new`` and ``order``.

    Which caption comes first follows from a hash of the key and of all captions.
    """
    pairs = []
    rows = replaced.sort_values("order", kind="stable")[["key", "old", "new"]]
    digest = hashlib.sha256(rows.to_json().encode()).hexdigest()[:16]
    for key, old, new in zip(rows["key"], rows["old"], rows["new"], strict=True):
        both = (("old", old), ("new", new))
        if hashlib.sha256(f"{digest}\n{key}".encode()).digest()[0] % 2:
            both = both[::-1]
        fits, texts = zip(*both, strict=True)
        pairs.append(ReviewedPair(key, texts, fits))
    return QuestionnairePart(REPAIRS, digest, pairs, [number])


def page(parts: Sequence[QuestionnairePart], images: Mapping[str, bytes]) -> str:
    """Return the page of one or two questions.

    It has no probability and nothing else that orders pairs; their strata are in its data, for the
    interval, and not shown.

    Parameters
    ----------
    parts : sequence of QuestionnairePart
        At least one.
    images : mapping of str to bytes
        Encoded images by key; those that are missing or cannot be decoded are not shown.
    """
    keys = list(dict.fromkeys(pair.key for part in parts for pair in part.pairs))
    most = LARGEST // max(1, len(keys))
    position = {key: number for number, key in enumerate(keys)}
    data = {
        "pictures": [picture(images.get(key), most) for key in keys],
        "parts": [
            {
                **vars(part.question),
                "digest": part.digest,
                "strata": list(part.strata),
                "pairs": [{**vars(pair), "picture": position[pair.key]} for pair in part.pairs],
            }
            for part in parts
        ],
    }
    script = _source("page.js")
    digest_of_script = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_source("page.html.j2")).render(
        data=safe_json(data),
        script=Markup(script),
        script_hash=Markup(digest_of_script),
        style=Markup(_source("page.css")),
    ) + "\n"  # fmt: skip


def picture(encoded: bytes | None, most: int) -> str | None:
    """Return an image as a JPEG data URI of at most `most` bytes, or the smallest of `LADDER`.

    None if there is no image, or it cannot be decoded.
    """
    image = decoded(encoded)
    if image is None:
        return None
    uri = ""
    for side, quality in LADDER:
        uri = jpeg_uri(image, side, quality=quality, optimize=True)
        if len(uri) <= most:
            break
    return uri


def _source(name: str) -> str:
    return (files("mispair.review.report") / name).read_text("utf-8")
