"""Pages, tables and claims on what models and neurons do."""
