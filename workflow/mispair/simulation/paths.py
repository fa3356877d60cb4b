"""Path of a job's results; see `mispair.core.paths`."""

from __future__ import annotations

SIMULATION = "results/simulation/{condition}/cs~{probabilities}/trials~{first}-{last}.json"
