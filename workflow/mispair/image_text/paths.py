"""Paths of comparisons of arms and of towers; see `mispair.core.paths`."""

COMPARISON = "results/arms/{corpus}/{towers}/comparison.json"
COMPARED_TOWERS = "results/arms/{corpus}/towers.json"
