"""Numbers of definitions that both the measurement and the report name."""

from __future__ import annotations

AT_LEAST = 0.5
"""A neuron pair mixes two features if its second |α| is at least this share of its first."""
