"""Gradient descent with large stepsizes on two-layer networks: phases, margins and speed."""
