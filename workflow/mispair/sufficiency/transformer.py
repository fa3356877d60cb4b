"""Transformers that read leaves: the contrastive encoder and the heads of the two tasks.

A block is pre-norm, with one head of the full width, no projection after the attention, no final
norm and no dropout, as in the published study. The `states` of a model are its tokens after each
block: guidance compares them with messages of belief propagation.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Condition = Literal["feature", "tokens"]
"""What a head reads of the other modality: one vector, or all its leaves."""


class Block(nn.Module):
    """Attention and a perceptron on tokens of one width, each added to its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width, bias=False)
        self.before_perceptron = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return new tokens (batch, tokens, width); `mask` is added to the logits."""
        width = tokens.shape[-1]
        projected = self.queries_keys_values(self.before_attention(tokens))
        queries, keys, values = projected.split(width, dim=-1)
        # Keys by queries: a softmax along columns is vectorised also where rows are short.
        logits = keys @ queries.mT * width**-0.5
        if mask is not None:
            logits = logits + mask.mT
        tokens = tokens + logits.softmax(dim=-2).mT @ values
        return tokens + self.narrow(F.gelu(self.widen(self.before_perceptron(tokens))))


def _run(blocks: nn.ModuleList, tokens: Tensor, mask: Tensor | None = None) -> list[Tensor]:
    states = []
    for block in blocks:
        tokens = block(tokens, mask)
        states.append(tokens)
    return states


class TreeEncoder(nn.Module):
    """Turn the leaves of one tree into a vector of as many numbers as there are symbols."""

    def __init__(self, leaves: int, symbols: int, width: int, blocks: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.position = nn.Parameter(torch.randn(leaves, width))
        self.blocks = nn.ModuleList([Block(width) for _ in range(blocks)])
        self.readout = nn.Linear(width, symbols)
        self.mix = nn.Linear(leaves, 1)

    def states(self, leaves: Tensor) -> list[Tensor]:
        """Return the tokens after each block: (batch, leaves, width) each."""
        return _run(self.blocks, self.embedding(leaves) + self.position)

    def read(self, tokens: Tensor) -> Tensor:
        """Return the feature (batch, symbols) of the last block's tokens."""
        return self.mix(self.readout(tokens).mT)[..., 0]

    def forward(self, leaves: Tensor) -> Tensor:
        """Return the feature of leaves (batch, leaves)."""
        return self.read(self.states(leaves)[-1])


class TreeEncoders(nn.Module):
    """A text and an image encoder; the similarity of a pair is the product of their features."""

    def __init__(self, leaves: int, symbols: int, width: int, blocks: int) -> None:
        super().__init__()
        self.text = TreeEncoder(leaves, symbols, width, blocks)
        self.image = TreeEncoder(leaves, symbols, width, blocks)


class _Conditioned(nn.Module):
    """A transformer on tokens of one modality and on a condition from the other modality."""

    def __init__(
        self, leaves: int, size: int, symbols: int, width: int, blocks: int, condition: Condition
    ) -> None:
        super().__init__()
        if width < symbols:
            raise ValueError(
                f"a width of {width} has no room for {symbols} symbols: increase the width"
            )
        self.conditions = leaves if condition == "tokens" else 1
        self.width, self.symbols = width, symbols
        self.other = nn.Embedding(symbols, width) if condition == "tokens" else None
        self.position = nn.Parameter(torch.randn(size + self.conditions, width))
        self.blocks = nn.ModuleList([Block(width) for _ in range(blocks)])

    def condition(self, given: Tensor) -> Tensor:
        """Return tokens of a condition: symbols (batch, leaves) or features (batch, S)."""
        if self.other is not None:
            return self.other(given)
        return F.pad(given, (0, self.width - given.shape[-1]))[:, None]


class Denoiser(_Conditioned):
    """Estimate every clean image leaf from the noisy ones and a condition on the text."""

    def __init__(
        self, leaves: int, symbols: int, width: int, blocks: int, condition: Condition
    ) -> None:
        super().__init__(leaves, leaves, symbols, width, blocks, condition)
        self.readout = nn.Linear(width, 1)
        self.leaves = leaves

    def states(self, evidence: Tensor, given: Tensor) -> list[Tensor]:
        """Return the tokens after each block, those of the image first.

        `evidence` holds log-likelihoods of the noisy leaves, (batch, leaves, symbols).
        """
        image = F.pad(evidence, (0, self.width - evidence.shape[-1]))
        tokens = torch.cat([image, self.condition(given)], dim=1) + self.position
        return _run(self.blocks, tokens)

    def read(self, tokens: Tensor) -> Tensor:
        """Return the estimates (batch, leaves) from the last block's tokens."""
        return self.readout(tokens[:, : self.leaves])[..., 0]


class NextWord(_Conditioned):
    """Predict each text leaf but the first from those before it and a condition on the image."""

    def __init__(
        self, leaves: int, symbols: int, width: int, blocks: int, condition: Condition
    ) -> None:
        super().__init__(leaves, leaves - 1, symbols, width, blocks, condition)
        self.embedding = nn.Embedding(symbols, width)
        self.readout = nn.Linear(width, symbols)
        self.register_buffer("mask", _mask(self.conditions, leaves - 1), persistent=False)
        self.mask: Tensor

    def states(self, text: Tensor, given: Tensor) -> list[Tensor]:
        """Return the tokens after each block of whole texts, those of the condition first."""
        tokens = torch.cat([self.condition(given), self.embedding(text[:, :-1])], dim=1)
        return _run(self.blocks, tokens + self.position, self.mask)

    def read(self, tokens: Tensor) -> Tensor:
        """Return logits (batch, leaves - 1, symbols) of the leaves 2, 3, ... from last tokens."""
        return self.readout(tokens[:, self.conditions :])


def _mask(conditions: int, symbols: int) -> Tensor:
    """Return the mask added to logits: conditions see conditions, a word these and its past."""
    position = torch.arange(conditions + symbols)
    seen = (position[None] < conditions) | (position[None] <= position[:, None])
    seen[:conditions, conditions:] = False
    return torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)
