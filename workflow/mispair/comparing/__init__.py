"""Changes between two runs: data, configuration, code, versions and numbers."""
