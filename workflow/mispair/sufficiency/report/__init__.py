"""Claims, tables and figures of the sufficiency study."""
