"""CLIP against LaCLIP (tables 2 and 3)."""
