"""Small towers that are trained from scratch on wrong captions, and which features they mix."""
