"""The step of the simulation study."""
