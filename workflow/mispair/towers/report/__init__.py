"""Encoding in the report."""
