"""Published model weights: recipes, architectures, conversion."""
