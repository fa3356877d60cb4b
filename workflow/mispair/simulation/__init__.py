"""The sparse-coding simulation study (section 5.1 of the paper)."""
