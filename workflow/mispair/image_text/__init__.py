"""The image-text study (section 5.2)."""
