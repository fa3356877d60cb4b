"""Claims, tables and figures of the stepsize study."""
