"""Modules with the functions that draw the figures of the study."""

from __future__ import annotations

from mispair.image_text.report import figures_neurons, figures_sweeps

MODULES = (figures_neurons, figures_neurons, figures_neurons, figures_sweeps)
