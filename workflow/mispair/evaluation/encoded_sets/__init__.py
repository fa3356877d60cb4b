"""Evaluation sets as features of images and prompts: what is known of them, and their scores."""
