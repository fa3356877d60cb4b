"""Steps of the audit."""
