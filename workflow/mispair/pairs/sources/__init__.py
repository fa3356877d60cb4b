"""Any folder or table of pairs as a source: recognised, listed, and packed into shards."""
