"""Pages, figures, tables and claims on models and neurons."""
