"""Tables and figures of the corpus."""
