"""The step of the study that no other study has."""
