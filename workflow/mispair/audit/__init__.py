"""Audit: how many captions of a corpus do not belong to their picture, and which."""
