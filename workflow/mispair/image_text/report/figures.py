"""Modules with the functions that draw the figures of the study."""

from __future__ import annotations

from mispair.evaluation.report import figures_basis, figures_pruning, figures_semantics
from mispair.image_text.report import (
    figures_bounds,
    figures_neurons,
    figures_overlap,
    figures_schemes,
    figures_shuffling,
)
from mispair.pairs.report import figures_corpus

MODULES = (
    figures_basis,
    figures_bounds,
    figures_corpus,
    figures_neurons,
    figures_overlap,
    figures_pruning,
    figures_schemes,
    figures_semantics,
    figures_shuffling,
)
