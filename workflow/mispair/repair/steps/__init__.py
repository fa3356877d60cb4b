"""Steps of the repair."""
