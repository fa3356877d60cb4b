"""Evaluation sets as features of images and prompts, with metadata and scores."""
