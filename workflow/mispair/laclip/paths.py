"""Paths of what is measured of models that are compared as they are; see `mispair.core.paths`."""

from mispair.core.paths import fill
from mispair.evaluation import paths as evaluation

COMPARED = "checkpoints"
"""Replaces the corpus in paths of models that are compared as they are."""
ZEROSHOT = fill(evaluation.ZEROSHOT, corpus=COMPARED)
PURITY = fill(evaluation.PURITY, corpus=COMPARED)
