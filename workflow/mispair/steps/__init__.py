"""The steps of the workflow, one module per rule."""
