"""The decoder of the captioner `trained`, and captions token by token, greedy or from a nucleus.

The feature of a picture sets the first state of the recurrent layers, and is added to each token
that they read, as in Show and Tell (Vinyals et al., CVPR 2015) with gated recurrent units. A
transformer with the feature as prefix needs four times as long for equally good captions; see
``bench/captioners.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from mispair.core.devices import upload
from mispair.pairs.corruption.draws import uniforms

if TYPE_CHECKING:
    from mispair.repair.captioners.recaption_settings import Settings


FIRST_TOKENS = 64
"""Number of likeliest tokens that are tried first: sorting a whole vocabulary takes longer."""

KEPT_SHARE = 0.8
"""Captions that ended are dropped from the batch once at most this share continues."""


Choice = Callable[[Tensor, Tensor, int], Tensor]
"""From logits (b, v), the numbers (b,) of the captions and the position to the next tokens (b,)."""


def choice(settings: Settings, seeds: Sequence[int] | np.ndarray) -> Choice:
    """Return the function that chooses the tokens of n captions, each with its own seed."""
    if settings.decoding == "greedy":
        return lambda logits, rows, position: logits.argmax(dim=-1)
    starts = np.asarray(seeds, dtype=np.uint64)

    def draw(logits: Tensor, rows: Tensor, position: int) -> Tensor:
        drawn = torch.from_numpy(uniforms(starts[rows.numpy()], position))
        return from_nucleus(logits / settings.temperature, settings.top_p, drawn)

    return draw


def room_for(words: int) -> int:
    """Return how many tokens a caption of so many words may have: a rare word has several."""
    return 2 * words


@torch.inference_mode()
def decode(
    decoder: CaptionReading,
    number: int,
    start: int,
    end: int,
    room: int,
    choose: Choice,
    device: str = "cpu",
) -> tuple[np.ndarray, np.ndarray]:
    """Write captions, all of a batch at once.

    Parameters
    ----------
    decoder : CaptionReading
        Has read the pictures.
    number : int
        Number n of captions.
    start, end : int
        Tokens before and after each caption; `start` is never chosen.
    room : int
        Most tokens of a caption.
    choose : callable
        Chooses the next tokens; see `choice`.
    device : str
        Where the decoder computes.

    Returns
    -------
    tokens : (n, room) int64 array
        Tokens of the captions, without marks; places behind the end of a caption are zero.
    lengths : (n,) int64 array
        Tokens of each caption, or -1 if its end did not fit into `room` tokens.
    """
    tokens = torch.zeros((number, room), dtype=torch.int64)
    lengths = torch.full((number,), -1, dtype=torch.int64)
    rows, goes_on = torch.arange(number), torch.ones(number, dtype=torch.bool)
    last = torch.full((number,), start, dtype=torch.int64)
    for position in range(room if number else 0):
        logits = decoder.step(upload(last, device), position)
        logits[:, start] = -torch.inf
        last = choose(logits, rows, position).cpu()
        ended = last == end
        lengths[rows[goes_on & ended]] = position
        goes_on &= ~ended
        tokens[rows[goes_on], position] = last[goes_on]
        left = int(goes_on.sum())
        if not left:
            break
        if left <= KEPT_SHARE * len(rows):
            (places,) = goes_on.nonzero(as_tuple=True)
            decoder.keep(upload(places, device))
            rows, last, goes_on = rows[places], last[places], goes_on[places]
    return tokens.numpy(), lengths.numpy()


def from_nucleus(logits: Tensor, top_p: float, drawn: Tensor) -> Tensor:
    """Return a token of each nucleus: the fewest tokens whose total probability reaches `top_p`.

    Source: Holtzman et al., The curious case of neural text degeneration, ICLR 2020.

    Parameters
    ----------
    logits : Tensor (b, v)
        On any device.
    top_p : float
        Total probability of a nucleus, before it is scaled to 1.
    drawn : Tensor (b,)
        Uniform in [0, 1): share of the nucleus, from the likeliest token on, up to each token.

    Returns
    -------
    Tensor (b,)
        On the CPU.
    """
    probabilities = logits.float().softmax(dim=-1)
    size = probabilities.shape[-1]
    first = min(FIRST_TOKENS, size)
    values, tokens = probabilities.topk(first, dim=-1)
    if first < size and bool((values.double().sum(dim=-1) < top_p).any()):
        values, tokens = probabilities.sort(dim=-1, descending=True, stable=True)
    # On the CPU, because a GPU sums in an order of its own.
    values, tokens = values.cpu().double(), tokens.cpu()
    totals = values.cumsum(dim=-1)
    inside = totals - values < top_p
    mass = torch.where(inside, values, 0.0).cumsum(dim=-1)
    places = (mass <= drawn[:, None] * mass[:, -1:]).sum(dim=-1, keepdim=True)
    last = inside.sum(dim=-1, keepdim=True) - 1
    return tokens.gather(-1, torch.minimum(places, last))[:, 0]


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


class CaptionReading:
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
        """Read one token (b,) of each caption; return logits (b, v) of the next one.

        `position` is the number of tokens that were read before.
        """
        read = (self.decoder.embedding(tokens) + self.added)[:, None]
        hidden, self.states = self.decoder.recurrent(read, self.states)
        logits: Tensor = self.decoder.logits(hidden[:, 0])
        return logits

    def keep(self, rows: Tensor) -> None:
        """Continue with some of the captions only, given by their places (k,) in the batch."""
        self.states = self.states[:, rows].contiguous()
        self.added = self.added[rows]
