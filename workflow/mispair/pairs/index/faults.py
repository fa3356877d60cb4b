"""The closed set of reasons for which a pair is rejected."""

from __future__ import annotations

from enum import StrEnum


class Fault(StrEnum):
    """Why a pair is rejected; a table of rejections has no other reasons."""

    NO_IMAGE = "no-image"
    NO_CAPTION = "no-caption"
    NOT_IN_TABLE = "not-in-caption-table"
    EMPTY_CAPTION = "empty-caption"
    UNDECODABLE_CAPTION = "undecodable-caption"
    CONTROL_CHARACTERS = "control-characters"
    CAPTION_LENGTH = "caption-length"
    UNDECODABLE_IMAGE = "undecodable-image"
    TOO_MANY_PIXELS = "too-many-pixels"
    TOO_SMALL_IMAGE = "too-small-image"
    EXTREME_SHAPE = "extreme-shape"
    MEMBER_TOO_LARGE = "member-too-large"
    UNDECODABLE_KEY = "undecodable-key"
    AMBIGUOUS_KEY = "ambiguous-key"
    DAMAGED_SHARD = "damaged-shard"
    LOST_WORKER = "lost-worker"


REASONS = tuple(map(str, Fault))

OF_IMAGES = frozenset(
    {
        Fault.UNDECODABLE_IMAGE,
        Fault.TOO_MANY_PIXELS,
        Fault.TOO_SMALL_IMAGE,
        Fault.EXTREME_SHAPE,
        Fault.MEMBER_TOO_LARGE,
        Fault.DAMAGED_SHARD,
        Fault.LOST_WORKER,
    }
)
"""Reasons that may be found when images are listed."""


class RejectedError(Exception):
    """A sample, or one of its captions, that is not used; `detail` explains the reason."""

    def __init__(self, reason: Fault, detail: str):
        super().__init__(detail)
        self.reason = reason
        self.detail = detail

    def row(self) -> dict[str, str]:
        """Return the reason and the detail as columns of the table of rejections."""
        return {"reason": self.reason, "detail": self.detail}
