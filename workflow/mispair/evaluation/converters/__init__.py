"""Converters of public compositional sets into folders that mispair and others read."""
