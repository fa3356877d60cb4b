"""Names of the study of towers trained from scratch: captions, towers and bases."""

from __future__ import annotations

from typing import Literal, get_args

Scheme = Literal["random", "spurious", "missing"]
"""Schemes of corruption whose captions towers are trained on."""

SCHEMES: tuple[Scheme, ...] = get_args(Scheme)

CLEAN = "clean"
"""Towers that are trained on the captions as they are."""

IDENTIFIED, LINEAR, NEURONS, PROMPTS = "identified", "linear", "neurons", "prompts"
"""Bases in which mixing is measured: components that varimax finds without the true features;
directions fitted to each true feature; columns of the projection; embeddings of a feature's words
in the text tower (for the image tower alone)."""

BASES = (IDENTIFIED, LINEAR, NEURONS, PROMPTS)
TOWERS = ("image", "text")

TOWERS_FILE = "towers.safetensors"
"""Name of the file of small towers in the folder of a training."""
