"""The closed set of reasons for which a pair is rejected, and the limits of its image."""

from enum import StrEnum

from mispair.core import settings
from mispair.pairs.shards.shards import MAX_ASPECT_RATIO, MAX_PIXELS


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


# Configurable limits that decide which images can be encoded.


class ImageLimits(settings.Settings):
    """Limits of images. They reach the jobs of `list_images` only, which lists the images."""

    max_image_pixels: int = settings.passed_on(
        MAX_PIXELS,
        ge=1,
        description="Greatest width x height of an image, in pixels; larger ones are refused "
        "before they are decoded. The default is Pillow's warning limit.",
    )
    min_image_side: int = settings.passed_on(
        1, ge=1, description="Least width and least height of an image, in pixels."
    )
    max_aspect_ratio: float = settings.passed_on(
        MAX_ASPECT_RATIO,
        ge=1,
        description="Greatest longer side of an image over its shorter one; others are refused "
        "before they are decoded. Resized for a tower of 224 pixels, an image at this limit has "
        "224 x 44,800 pixels.",
    )
