"""Training of towers with open_clip's own trainer."""
