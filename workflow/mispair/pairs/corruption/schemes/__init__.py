"""Schemes of corruption: each module declares one and applies it."""
