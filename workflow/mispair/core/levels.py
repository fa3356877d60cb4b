"""Quantiles of the normal distribution at the levels of one-sided tests."""

Z_ONE_SIDED = 1.645
"""At 5 %."""
