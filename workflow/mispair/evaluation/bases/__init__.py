"""Bases of an embedding: searches for one, and what each is measured by."""
