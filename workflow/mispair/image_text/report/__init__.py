"""Claims, tables and figures of the image-text study."""
