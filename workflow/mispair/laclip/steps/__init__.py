"""The step that prints the comparison."""
