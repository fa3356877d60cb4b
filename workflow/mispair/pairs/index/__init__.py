"""The index of a corpus: kept pairs, rejected keys, statistics."""
