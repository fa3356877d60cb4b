"""Tables and sentences of the review."""
