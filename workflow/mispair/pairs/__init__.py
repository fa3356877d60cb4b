"""Image-text pairs: shards, generated scenes, captions and their corruption."""
