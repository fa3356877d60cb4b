"""Samples of the simulation: latents, noise, captions."""
