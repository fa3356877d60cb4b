"""Training of small networks: AdamW, the loop, and the job of one training."""
