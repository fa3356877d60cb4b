"""Captioners: what writes a caption for a picture."""
