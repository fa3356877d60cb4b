"""Fine-tuning of the last projections on cached features."""
