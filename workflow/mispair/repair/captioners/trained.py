"""The captioner `trained`: learns from the captions of trusted pairs, reads cached features."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mispair.core import seeds
from mispair.core.devices import upload
from mispair.core.files import UserError
from mispair.core.provenance import fingerprint
from mispair.core.training import LossOfStep, TrainingPlan, train
from mispair.pairs.corruption.draws import streams
from mispair.repair.captioners.decoding import Marks, choice, decode, room_for
from mispair.repair.captioners.faults import Caption, Draft, check
from mispair.repair.captioners.vocabulary import (
    Tokenizer,
    Vocabulary,
    tidy,
    tokenized,
    vocabulary_of,
)

if TYPE_CHECKING:
    from mispair.core.resume import FileKeeper
    from mispair.repair.captioners.recaption_settings import Settings


# A small recurrent decoder that writes captions from image features.
#
# The feature of a picture sets the first state of the recurrent layers, and is added to each token
# that they read, as in Show and Tell (Vinyals et al., CVPR 2015) with gated recurrent units. A
# transformer with the feature as prefix needs four times as long for equally good captions; see
# ``bench/captioners.py``.


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
        """Read one token (b,) of each caption; return logits (b, v) of the next one."""
        read = (self.decoder.embedding(tokens) + self.added)[:, None]
        hidden, self.states = self.decoder.recurrent(read, self.states)
        logits: Tensor = self.decoder.logits(hidden[:, 0])
        return logits

    def keep(self, rows: Tensor) -> None:
        """Continue with some of the captions only."""
        self.states = self.states[:, rows].contiguous()
        self.added = self.added[rows]


# Batches of trusted captions that a decoder is trained on, their loss, and the step sizes.

WARM_UP = 50
"""Steps in which the step size grows."""

LAST_SHARE = 0.02
"""Step size of the last step, as a share of the largest."""

BETAS = (0.9, 0.99)
LARGEST_GRADIENT = 1.0


def plan(settings: Settings) -> TrainingPlan:
    """Return the plan of a captioner's training."""
    lr, last = settings.lr, settings.lr * LAST_SHARE
    return TrainingPlan(
        settings.steps, lr, last, settings.weight_decay, LARGEST_GRADIENT, WARM_UP, BETAS
    )


@dataclass(frozen=True)
class LearningCaptions:
    """Captions to learn from.

    Attributes
    ----------
    tokens : (n, longest) int array
        Tokens, counted from 0; `end` after the end of a caption.
    lengths : (n,) int64 array
        Tokens of each caption.
    is_cut : (n,) bool array
        Whether the end of the caption is missing.
    pictures : (n,) int64 array
        Row of the feature of each caption's picture.
    start, end : int
        Tokens before and after each caption.
    """

    tokens: np.ndarray
    lengths: np.ndarray
    is_cut: np.ndarray
    pictures: np.ndarray
    start: int
    end: int

    def batch(self, rows: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """Return the tokens to read (b, t), those to predict (b, t), and where (b, t) bool."""
        steps = self.lengths[rows] + ~self.is_cut[rows]
        longest = int(steps.max())
        targets = np.full((len(rows), longest), self.end, np.int64)
        copied = self.tokens[rows, :longest]
        targets[:, : copied.shape[1]] = copied
        read = np.concatenate([np.full((len(rows), 1), self.start), targets[:, :-1]], axis=1)
        inside = np.arange(longest) < steps[:, None]
        return torch.from_numpy(read), torch.from_numpy(targets), torch.from_numpy(inside)


class Order:
    """Which captions are in the batch of each step: a function of seed and step alone.

    Each epoch goes through the captions in an order of its own. Captions of a batch have about
    the same length, so that few places are filled up.
    """

    def __init__(self, lengths: np.ndarray, batch_size: int, seed: int) -> None:
        self.lengths, self.seed = lengths, seed
        self.size = min(batch_size, len(lengths))
        self.batches_of_an_epoch = len(lengths) // self.size
        self._epoch, self._batches = -1, np.empty((0, 0), np.int64)

    def __call__(self, step: int) -> np.ndarray:
        """Return the captions (b,) of a step."""
        epoch, number = divmod(step, self.batches_of_an_epoch)
        if epoch != self._epoch:
            draws = seeds.generator(self.seed, "captioner", "epoch", epoch)
            rows = draws.permutation(len(self.lengths))[: self.size * self.batches_of_an_epoch]
            rows = rows[np.argsort(self.lengths[rows], kind="stable")]
            batches = rows.reshape(self.batches_of_an_epoch, self.size)
            self._epoch, self._batches = epoch, draws.permutation(batches)
        return self._batches[number]


def loss_of_step(
    decoder: RecurrentDecoder,
    features: Tensor,
    captions: LearningCaptions,
    batch_size: int,
    seed: int,
) -> LossOfStep:
    """Return the loss of each step: the cross-entropy, in nats a token.

    `features` (p, d) are those of the pictures, on the decoder's device; `batch_size` is the number
    of captions of a batch, and `seed` that of their order.
    """
    order = Order(captions.lengths, batch_size, seed)

    def loss(step: int) -> Tensor:
        rows = order(step)
        read, targets, inside = (upload(part, features.device) for part in captions.batch(rows))
        pictures = upload(torch.from_numpy(captions.pictures[rows]), features.device)
        hidden = decoder(features[pictures], read)[inside]
        return F.cross_entropy(decoder.logits(hidden), targets[inside])

    return loss


log = logging.getLogger(__name__)

FEWEST_CAPTIONS = 20
"""Fewest trusted captions that a captioner is trained on."""

PICTURES_AT_ONCE = 1024


@dataclass(frozen=True)
class TrainedCaptioner:
    """A decoder with its vocabulary.

    Attributes
    ----------
    decoder : RecurrentDecoder
        Trained.
    vocabulary : Vocabulary
        Its tokens.
    settings : Settings
        Settings of the step.
    device : str
        Where the decoder is.
    """

    decoder: RecurrentDecoder
    vocabulary: Vocabulary
    settings: Settings
    device: str

    @property
    def revision(self) -> str:
        """Fingerprint of the trained weights and the tokens."""
        state = self.decoder.state_dict()
        parts = [values.cpu().numpy().tobytes() for _, values in sorted(state.items())]
        return fingerprint([*parts, self.vocabulary.ids.tobytes()])

    def caption(
        self,
        features: np.ndarray,
        keys: Sequence[str],
        progress: Callable[[int], None] = lambda number: None,
    ) -> list[Caption]:
        """Return a caption for each picture, checked.

        Parameters
        ----------
        features : (n, d) array
            Of the pictures.
        keys : sequence of str
            Keys of the n pairs: the draws of a picture depend on its key.
        progress : callable, optional
            Takes the number of pictures that have a caption.
        """
        captions: list[Caption] = []
        for start in range(0, len(keys), PICTURES_AT_ONCE):
            rows = slice(start, start + PICTURES_AT_ONCE)
            captions += self._batch(features[rows], keys[rows])
            progress(len(captions))
        return captions

    def _batch(self, features: np.ndarray, keys: Sequence[str]) -> list[Caption]:
        captions = [Caption("", None)] * len(keys)
        waiting = np.arange(len(keys))
        for number in range(self.settings.attempts):
            some = [keys[int(row)] for row in waiting]
            for row, draft in zip(
                waiting, self._drafts(features[waiting], some, number), strict=True
            ):
                captions[row] = check(draft, self.settings.max_words, self.settings.min_words)
            waiting = np.array([row for row in waiting if captions[row].reason], dtype=np.int64)
            if not len(waiting):
                break
        return captions

    @torch.inference_mode()
    def _drafts(self, features: np.ndarray, keys: Sequence[str], number: int) -> list[Draft]:
        given = torch.from_numpy(features.astype(np.float32)).to(self.device)
        vocabulary = self.vocabulary
        marks = Marks(vocabulary.start, (vocabulary.end,), (vocabulary.start,))
        room = room_for(self.settings.max_words)
        choose = choice(self.settings, streams(keys, self.settings.seed, "caption", number))
        reading = CaptionReading(self.decoder, given)
        tokens, lengths = decode(reading, len(keys), marks, room, choose, self.device)
        texts = vocabulary.texts(tokens, np.where(lengths < 0, room, lengths))
        return [Draft(text, bool(length < 0)) for text, length in zip(texts, lengths, strict=True)]


def fit(
    features: np.ndarray,
    pictures: np.ndarray,
    texts: Sequence[str],
    tokenizer: Tokenizer,
    settings: Settings,
    device: str = "cpu",
    keeper: FileKeeper | None = None,
    progress: Callable[[int], None] = lambda step: None,
) -> tuple[TrainedCaptioner, np.ndarray]:
    """Train a decoder on captions; return the captioner and the loss (steps,) of each step.

    Parameters
    ----------
    features : (p, d) array
        Of the trusted pictures.
    pictures : (n,) int array
        Row of the picture of each caption.
    texts : sequence of str
        The n captions.
    tokenizer : callable
        Of the towers: see `tokenized`.
    settings : Settings
        Settings of the step.
    device : str
        Where the decoder computes.
    keeper, progress
        See `mispair.core.training.train`.

    Raises
    ------
    UserError
        If there are too few captions, or the tokenizer is not supported.
    """
    tokens = tokenized(tokenizer, [*map(tidy, texts)], room_for(settings.max_words))
    some = np.flatnonzero(tokens.lengths > 0)
    if len(some) < FEWEST_CAPTIONS:
        raise UserError(
            f"recaption_pairs: captioner trained has {len(some)} trusted captions to learn from, "
            f"and needs {FEWEST_CAPTIONS}. Trust more pairs, or take another captioner."
        )
    vocabulary, counted = vocabulary_of(tokenizer, tokens)
    captions = LearningCaptions(
        counted[some],
        tokens.lengths[some],
        tokens.is_cut[some],
        np.asarray(pictures)[some],
        vocabulary.start,
        vocabulary.end,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeds.integer(settings.seed, "captioner", "first weights"))
        decoder = RecurrentDecoder(
            features.shape[1], vocabulary.size, settings.width, settings.blocks
        )
    given = torch.from_numpy(features.astype(np.float32)).to(device)
    decoder.to(device).standardise(given)
    loss = loss_of_step(decoder, given, captions, settings.train_batch_size, settings.seed)
    losses = train(decoder, loss, plan(settings), keeper, progress).cpu()
    log.info(
        "trained on %d captions of %d tokens: loss %.3f at last",
        len(some), len(vocabulary.ids), float(losses[-20:].mean()),
    )  # fmt: skip
    decoder.eval().requires_grad_(False)
    return TrainedCaptioner(decoder, vocabulary, settings, device), losses.numpy()
