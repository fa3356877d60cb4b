"""The joint generative hierarchical model: two trees of symbols that share a root."""
