"""Steps that evaluate models and neurons."""
