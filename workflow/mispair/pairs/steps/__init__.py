"""Steps from shards to pairings."""
