"""Files, settings, provenance, devices and resume states: what every study needs."""
