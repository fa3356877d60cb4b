"""mispair: how mismatched captions damage CLIP, and how recaptioning repairs it."""

__version__ = "0.1.0"
