"""Zero-shot evaluation, silhouette, purity and pruning."""
