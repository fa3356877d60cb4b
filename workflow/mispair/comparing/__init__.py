"""What changed between two runs: data, configuration, code, versions and numbers."""
