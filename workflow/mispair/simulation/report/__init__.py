"""Claims, tables and figures of the simulation study."""
