"""Repair: recaption a corpus, filter the captions, and measure the effect."""
