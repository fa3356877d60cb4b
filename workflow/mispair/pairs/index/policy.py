"""What is a pair, and the closed set of reasons for which one is rejected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mispair.pairs.shards.images import MAX_ASPECT_RATIO, MAX_PIXELS
from mispair.pairs.shards.shards import MAX_MEMBER_BYTES, MAX_TEXT_BYTES

NO_CAPTION = "no-caption"
NOT_IN_TABLE = "not-in-caption-table"
EMPTY_CAPTION = "empty-caption"
UNDECODABLE_CAPTION = "undecodable-caption"
CONTROL_CHARACTERS = "control-characters"
CAPTION_LENGTH = "caption-length"
NO_IMAGE = "no-image"
UNDECODABLE_IMAGE = "undecodable-image"
TOO_MANY_PIXELS = "too-many-pixels"
TOO_SMALL_IMAGE = "too-small-image"
EXTREME_SHAPE = "extreme-shape"
MEMBER_TOO_LARGE = "member-too-large"
UNDECODABLE_KEY = "undecodable-key"
AMBIGUOUS_KEY = "ambiguous-key"
DAMAGED_SHARD = "damaged-shard"
LOST_WORKER = "lost-worker"

REASONS = (
    NO_IMAGE,
    NO_CAPTION,
    NOT_IN_TABLE,
    EMPTY_CAPTION,
    UNDECODABLE_CAPTION,
    CONTROL_CHARACTERS,
    CAPTION_LENGTH,
    UNDECODABLE_IMAGE,
    TOO_MANY_PIXELS,
    TOO_SMALL_IMAGE,
    EXTREME_SHAPE,
    MEMBER_TOO_LARGE,
    UNDECODABLE_KEY,
    AMBIGUOUS_KEY,
    DAMAGED_SHARD,
    LOST_WORKER,
)
"""Why a pair is rejected: nothing else is in a table of rejections."""


@dataclass(frozen=True)
class Policy:
    """What is a pair: where captions come from, and the limits that are a matter of taste.

    Attributes
    ----------
    caption_from : str
        Extension of the caption's member, or ``json:FIELD``.
    empty_captions, control_characters : "quarantine" or "keep"
        What becomes of a caption without visible characters, or with control characters other than
        tab, newline and return.
    min_words, max_words, max_characters : int
        Limits of a caption's length; None is no limit.
    max_pixels : int
        Limit of width times height; above it an image is not decoded.
    min_side : int
        Smallest width and height, in pixels.
    max_ratio : float
        Limit of the longer side over the shorter one; above it an image is not decoded.
    max_member_bytes, max_caption_bytes : int
        Limits of the size of an image and of a caption.
    table : "none", "replace" or "augment"
        Whether the user's table of captions takes the place of the shard's, or follows it.
    """

    caption_from: str = "txt"
    empty_captions: Literal["quarantine", "keep"] = "quarantine"
    control_characters: Literal["quarantine", "keep"] = "quarantine"
    min_words: int = 0
    max_words: int | None = None
    max_characters: int | None = None
    max_pixels: int = MAX_PIXELS
    min_side: int = 1
    max_ratio: float = MAX_ASPECT_RATIO
    max_member_bytes: int = MAX_MEMBER_BYTES
    max_caption_bytes: int = MAX_TEXT_BYTES
    table: Literal["none", "replace", "augment"] = "none"

    @property
    def caption_field(self) -> str | None:
        """The field of the json that holds the caption, or None if a file of its own does."""
        return self.caption_from[5:] if self.caption_from.startswith("json:") else None

    @property
    def caption_extension(self) -> str:
        """Extension of the member that holds the caption."""
        return "json" if self.caption_field is not None else self.caption_from.lower().lstrip(".")
