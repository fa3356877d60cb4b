"""Schemes that corrupt captions."""
