"""Captions: reading, checking, rewording."""
