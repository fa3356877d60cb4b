"""The texts of captions without their pictures: checks, scripts, and groups of pairs."""
