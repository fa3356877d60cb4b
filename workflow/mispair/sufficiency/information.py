"""How much of what leaves tell of the root is left in a feature of them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mispair.adamw import AdamW

HIDDEN, LR = 64, 1e-2


def information_lost(
    features: Tensor, posteriors: Tensor, steps: int, generator: torch.Generator
) -> Tensor:
    """Return KL(posterior given the leaves || posterior given the feature) of held-out samples.

    Its mean is I(root; leaves) - I(root; feature), or more: the posterior given the feature is the
    best that a perceptron with one hidden layer, fitted to the first half of the samples, can do.

    Parameters
    ----------
    features : Tensor (samples, symbols)
        Standardised here.
    posteriors : Tensor (samples, symbols)
        Of the root given the leaves, exactly.
    steps : int
        Steps of Adam, each on all samples of the first half.
    generator : torch.Generator
        For the first weights.

    Returns
    -------
    Tensor (samples - samples // 2,)
        Of the second half, in nats.
    """
    half = len(features) // 2
    inputs = (features - features[:half].mean(dim=0)) / features[:half].std(dim=0).clamp_min(1e-12)
    inputs, posteriors = inputs.float(), posteriors.float()
    symbols = posteriors.shape[1]
    hidden = nn.Linear(inputs.shape[1], HIDDEN)
    output = nn.Linear(HIDDEN, symbols)
    with torch.no_grad():
        for layer in (hidden, output):
            layer.weight.copy_(torch.randn(layer.weight.shape, generator=generator))
            layer.weight.mul_(layer.in_features**-0.5)
            layer.bias.zero_()
    model = nn.Sequential(hidden, nn.GELU(), output).to(inputs.device)
    weights = list(model.parameters())
    optimiser = AdamW(weights, decay=0.0)
    for step in range(steps):
        loss = F.cross_entropy(model(inputs[:half]), posteriors[:half])
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            optimiser.step(gradients, LR * (1 + math.cos(math.pi * step / steps)) / 2)
    with torch.no_grad():
        fitted = model(inputs[half:]).log_softmax(dim=-1)
    return (torch.special.xlogy(posteriors[half:], posteriors[half:])
            - posteriors[half:] * fitted).sum(dim=-1)  # fmt: skip


def information_held(posteriors: Tensor) -> Tensor:
    """Return KL(posterior || uniform) of each sample: its mean is I(root; leaves), in nats."""
    symbols = posteriors.shape[1]
    return torch.special.xlogy(posteriors, posteriors * symbols).sum(dim=-1)
