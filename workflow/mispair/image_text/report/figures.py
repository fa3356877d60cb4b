"""Modules with the functions that draw the figures of the study."""

from __future__ import annotations

from mispair.image_text.report import (
    figures_bounds,
    figures_neurons,
    figures_small,
    figures_sweeps,
)

MODULES = (figures_bounds, figures_neurons, figures_small, figures_sweeps)
