"""What a run will take, before it is paid for: see `mispair.planning.plan`."""
