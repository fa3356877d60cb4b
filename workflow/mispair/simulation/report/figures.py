"""Functions that draw the figures of the study."""

from __future__ import annotations

from mispair.report.drawings import by_name
from mispair.simulation.report import (
    figures_conditions,
    figures_features,
    figures_figure1,
    figures_theory,
)

DRAWINGS = by_name(
    figures_figure1.simulation_figure1_as_written,
    figures_figure1.simulation_figure1_as_run,
    figures_features.simulation_cosines,
    figures_features.simulation_mixing,
    figures_features.simulation_tsne,
    figures_figure1.simulation_captions,
    figures_figure1.simulation_filter,
    figures_features.simulation_samples,
    figures_theory.simulation_dynamics,
    figures_theory.simulation_alignments,
    figures_conditions.simulation_bridge,
    figures_conditions.simulation_grid,
    figures_conditions.simulation_scaling,
)

SMALL = by_name(
    figures_figure1.small_mixing,
    figures_figure1.small_filtering,
    figures_figure1.small_reproduction,
)
