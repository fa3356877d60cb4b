"""Path of a job's results; see `mispair.core.paths`."""

SIMULATION = "results/simulation/{condition}/cs~{probabilities}/trials~{first}-{last}.json"
