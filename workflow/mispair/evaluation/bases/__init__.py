"""Bases of an embedding: searches for one, and their measures."""
