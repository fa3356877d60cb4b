"""Claims, tables and figures of towers trained on wrong captions."""
