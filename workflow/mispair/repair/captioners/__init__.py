"""Captioners, which write captions for pictures."""
