"""Estimates of the time, memory and disk of a run before it starts: see `mispair.planning.plan`."""
