"""The emoji corpus: openly licensed pictures and words, fetched and packed as image-text pairs."""
