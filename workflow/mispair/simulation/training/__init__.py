"""Encoders, losses and training of the simulation."""
