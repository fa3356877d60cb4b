"""Nearest-neighbour search among captions."""
