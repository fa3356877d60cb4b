"""Repair: recaption a corpus, filter the captions, and measure what that gives back."""
