"""A small recurrent decoder that writes captions from image features.

The feature of a picture sets the first state of the recurrent layers, and is added to each token
that they read, as in Show and Tell (Vinyals et al., CVPR 2015) with gated recurrent units. A
transformer with the feature as prefix needs four times as long for equally good captions; see
``bench/captioners.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RecurrentDecoder(nn.Module):
    """Predict each token of a caption from a picture's feature and the tokens before it.

    Parameters
    ----------
    features : int
        Length d of a picture's feature.
    tokens : int
        Size v of the vocabulary, with its marks.
    width, layers : int
        Of the recurrent layers.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, features: int, tokens: int, width: int, layers: int) -> None:
        super().__init__()
        self.width, self.layers = width, layers
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))
        self.picture = nn.Linear(features, (layers + 1) * width)
        self.embedding = nn.Embedding(tokens, width)
        nn.init.normal_(self.embedding.weight, std=0.05)
        self.recurrent = nn.GRU(width, width, layers, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.readout = nn.Linear(width, tokens)

    def standardise(self, features: Tensor) -> None:
        """Scale all features so that those of trusted pictures (n, d) have mean 0, deviation 1."""
        self.mean.copy_(features.mean(dim=0))
        self.scale.copy_(1 / (features.std(dim=0, correction=0) + 1e-6))

    def begin(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first states (layers, b, width), and the addend of tokens (b, width)."""
        read = self.picture((features - self.mean) * self.scale)
        states, added = read.split([self.layers * self.width, self.width], dim=-1)
        states = states.tanh().unflatten(-1, (self.layers, self.width)).transpose(0, 1)
        return states.contiguous(), added

    def forward(self, features: Tensor, tokens: Tensor) -> Tensor:
        """Return hidden states (b, t, width) behind each of the tokens (b, t)."""
        states, added = self.begin(features)
        hidden, _ = self.recurrent(self.embedding(tokens) + added[:, None], states)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits (..., v) of the token after each hidden state (..., width)."""
        return self.readout(self.norm(hidden))


class Reading:
    """The decoder, while it writes captions of a batch of pictures.

    Parameters
    ----------
    decoder : RecurrentDecoder
        A trained one.
    features : Tensor (b, d)
        Of the pictures.
    """

    def __init__(self, decoder: RecurrentDecoder, features: Tensor) -> None:
        self.decoder = decoder
        self.states, self.added = decoder.begin(features)

    def step(self, tokens: Tensor, position: int) -> Tensor:
        """Read one token (b,) of each caption; return logits (b, v) of the next one."""
        read = (self.decoder.embedding(tokens) + self.added)[:, None]
        hidden, self.states = self.decoder.recurrent(read, self.states)
        logits: Tensor = self.decoder.logits(hidden[:, 0])
        return logits

    def keep(self, rows: Tensor) -> None:
        """Continue with some of the captions only."""
        self.states = self.states[:, rows].contiguous()
        self.added = self.added[rows]
