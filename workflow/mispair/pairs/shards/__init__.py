"""Reading and writing shards."""
