"""Information on the root that a feature of the leaves loses."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from mispair.core.training.adamw import AdamW

HIDDEN, LR = 64, 1e-2


def information_lost(
    features: Tensor, posteriors: Tensor, steps: int, generator: torch.Generator
) -> Tensor:
    """Return KL(posterior given the leaves || posterior given the feature) of held-out samples.

    Its mean is I(root; leaves) - I(root; feature), or more: the posterior given the feature is that
    of a perceptron with one hidden layer, fitted to the first half of the samples.

    Features and the exact posteriors of the root given the leaves are (samples, symbols). Each step
    of Adam is on all samples of the first half; the generator draws the first weights. The result
    is for the samples of the second half, in nats.
    """
    half = len(features) // 2
    inputs = (features - features[:half].mean(dim=0)) / features[:half].std(dim=0).clamp_min(1e-12)
    # Samples last: a softmax over a few symbols is vectorised along them.
    inputs, posteriors = inputs.float().T.contiguous(), posteriors.float().T.contiguous()
    symbols = len(posteriors)
    weights = []
    for outputs, inputs_of_layer in ((HIDDEN, len(inputs)), (symbols, HIDDEN)):
        start = torch.randn(outputs, inputs_of_layer, generator=generator) * inputs_of_layer**-0.5
        weights += [start.to(inputs.device), torch.zeros(outputs, 1, device=inputs.device)]
    for values in weights:
        values.requires_grad_()
    optimiser = AdamW(weights, decay=0.0)

    def logs(inputs: Tensor) -> Tensor:
        hidden, its_bias, output, bias = weights
        return (output @ F.gelu(hidden @ inputs + its_bias) + bias).log_softmax(dim=0)

    for step in range(steps):
        loss = -(posteriors[:, :half] * logs(inputs[:, :half])).sum() / half
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            optimiser.step(gradients, LR * (1 + math.cos(math.pi * step / steps)) / 2)
    held = posteriors[:, half:]
    with torch.no_grad():
        return (torch.special.xlogy(held, held) - held * logs(inputs[:, half:])).sum(dim=0)


def information_held(posteriors: Tensor) -> Tensor:
    """Return KL(posterior || uniform) of each sample: its mean is I(root; leaves), in nats."""
    symbols = posteriors.shape[1]
    return torch.special.xlogy(posteriors, posteriors * symbols).sum(dim=-1)
