"""Tidy tables, figures and pages."""
