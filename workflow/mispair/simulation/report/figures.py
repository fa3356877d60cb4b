"""Modules with the functions that draw the figures of the study."""

from __future__ import annotations

from mispair.simulation.report import (
    figures_conditions,
    figures_features,
    figures_figure1,
    figures_theory,
)

MODULES = (figures_conditions, figures_features, figures_figure1, figures_theory)
