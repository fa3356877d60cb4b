"""Path of a job's results; see `mispair.core.paths`."""

SIMULATION = "results/simulation/{condition}/cs~{spurious_probability}/trials~{first}-{last}.json"
