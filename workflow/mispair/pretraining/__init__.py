"""Small towers that are trained from scratch on wrong captions, and the features that they mix."""
