"""A person checks a random sample of pairs, and the labels measure the share of wrong captions."""
