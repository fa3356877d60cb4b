"""Configurable limits that decide which images can be encoded."""

from __future__ import annotations

from mispair.core import settings
from mispair.pairs.shards.shards import MAX_ASPECT_RATIO, MAX_PIXELS


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
