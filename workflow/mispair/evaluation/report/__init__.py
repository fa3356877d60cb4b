"""Rows of evaluations, published overlap, and the gallery of neurons."""
