"""Towers: checkpoints, frozen-tower features and projections."""
