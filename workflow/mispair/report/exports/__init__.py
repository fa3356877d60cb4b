"""The report's tables in forms for other tools."""
