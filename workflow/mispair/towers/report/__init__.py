"""What the report has on encoding."""
