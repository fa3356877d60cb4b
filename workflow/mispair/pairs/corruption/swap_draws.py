"""Draws of swaps: a pairing holds several, so that seeds of a fine-tuning are replicates.

Draw 0 has the plain names of the columns. Draw k has the same names with ``_k`` at the end.
"""

from __future__ import annotations

from mispair.core import seeds

DRAWN = ("caption_id", "swapped", "text_changed")
"""Columns of a pairing that each draw has."""

SOURCE = "caption_source"
"""A further column of each draw. A corpus with one caption per pair has none."""

WRITTEN = -1
"""Source of a caption that a scheme or a captioner wrote: no pair had it."""


def column(name: str, draw: int) -> str:
    """Return the name that a column of a pairing has for a draw.

    Examples
    --------
    >>> column("swapped", 0), column("swapped", 2)
    ('swapped', 'swapped_2')
    """
    return f"{name}_{draw}" if draw else name


def seed_of(seed: int, draw: int) -> int:
    """Return the seed of a draw: that of the step for draw 0, else one derived from it."""
    return seeds.integer(seed, "draw", draw) if draw else seed
