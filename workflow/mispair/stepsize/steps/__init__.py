"""Steps of the stepsize study."""
