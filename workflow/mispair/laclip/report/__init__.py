"""Claims, tables and figures on checkpoints."""
