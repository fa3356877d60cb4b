"""Figure of the regimes."""
