"""Steps that write the report."""
