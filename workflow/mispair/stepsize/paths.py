"""Paths of the trainings; see `mispair.core.paths`."""

from __future__ import annotations

TWO_LAYER = "results/stepsize/{part}/{data_set}/{activation}.json"
MULTILAYER = "results/stepsize/multilayer/{data_set}.json"
