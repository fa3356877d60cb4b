"""The generated corpus `scenes`."""
