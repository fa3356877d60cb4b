"""The verbs of ``mispair``, which are for people: declarations, and what they run."""
