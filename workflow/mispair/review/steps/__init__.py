"""Steps of the review."""
