"""The captioner `trained`: learns from the captions of trusted pairs, reads cached features."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from mispair.core import seeds
from mispair.core.devices import upload
from mispair.core.distributions import lower_limit
from mispair.core.files import UserError
from mispair.core.provenance import fingerprint
from mispair.core.training import LossOfStep, TrainingPlan, train
from mispair.pairs.corruption.draws import streams
from mispair.repair.captioners.decoder import (
    CaptionReading,
    RecurrentDecoder,
    choice,
    decode,
    room_for,
)
from mispair.repair.captioners.faults import (
    LEARNED_FROM,
    LEAST_HELD_OUT,
    LEAST_TO_TEST,
    Caption,
    Draft,
    check,
)
from mispair.repair.captioners.vocabulary import (
    Tokenizer,
    Vocabulary,
    tidy,
    tokenized,
    vocabulary_of,
)

if TYPE_CHECKING:
    import pandas as pd

    from mispair.core.resume import FileKeeper
    from mispair.repair.captioners.faults import Caption
    from mispair.repair.captioners.recaption_settings import Settings
    from mispair.repair.captioners.vocabulary import Tokenizer, Tokens


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
        limits = self.settings.max_words, self.settings.min_words
        captions: list[Caption] = []
        for start in range(0, len(keys), PICTURES_AT_ONCE):
            rows = slice(start, start + PICTURES_AT_ONCE)
            captions += [
                check(draft, *limits) for draft in self._drafts(features[rows], keys[rows])
            ]
            progress(len(captions))
        return captions

    @torch.inference_mode()
    def _drafts(self, features: np.ndarray, keys: Sequence[str]) -> list[Draft]:
        given = torch.from_numpy(features.astype(np.float32)).to(self.device)
        vocabulary, room = self.vocabulary, room_for(self.settings.max_words)
        choose = choice(self.settings, streams(keys, self.settings.seed, "caption", 0))
        tokens, lengths = decode(
            CaptionReading(self.decoder, given), len(keys), vocabulary.start, vocabulary.end, room,
            choose, self.device,
        )  # fmt: skip
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


# Test of a trained captioner on trusted pairs that it has not learned from.

SHARE, MOST = 0.1, 500
"""Share of the trusted pictures that are held out, and how many at most."""

UNTESTED = (
    f"recaption_pairs: the captioner was not tested, which needs {LEAST_TO_TEST} trusted pairs. "
    "Trust more, or read some new captions before you use them."
)
"""Warning of a captioner that learned from too few pairs."""


@dataclass(frozen=True)
class HeldOut:
    """How close captions of held-out pictures are to their right captions.

    Attributes
    ----------
    captioner, typical : float
        Mean cosine of a picture's right captions with its new caption, and with the most typical
        caption that the captioner learned from, which is the one closest to their mean: TF-IDF
        vectors of tokens.
    error : float
        Standard error of the difference, over pictures.
    pictures : int
        Number of held-out pictures.
    """

    captioner: float
    typical: float
    error: float
    pictures: int

    @property
    def is_better(self) -> bool:
        """Whether the captioner is better than one caption for all pictures (one-sided, 95 %)."""
        return lower_limit(self.captioner - self.typical, self.error) > 0


def drawn(pictures: int, seed: int) -> np.ndarray:
    """Return which of n pictures are held out, (n,) bool; none of too few for a test."""
    number = min(MOST, max(LEAST_HELD_OUT, round(SHARE * pictures)))
    held = np.zeros(pictures, bool)
    if pictures >= (1 + LEARNED_FROM) * number:
        order = seeds.generator(seed, "captioner", "held out").permutation(pictures)
        held[order[:number]] = True
    return held


def examined(
    captioner: TrainedCaptioner,
    features: np.ndarray,
    right: pd.DataFrame,
    learned: Sequence[str],
    tokenizer: Tokenizer,
) -> tuple[HeldOut, list[Caption]]:
    """Return how close the captions of held-out pictures are, and these captions.

    Parameters
    ----------
    captioner : TrainedCaptioner
        Has not learned from these pictures.
    features : (n, d) array
        Of the pictures, by key.
    right : DataFrame
        ``key`` and ``caption`` of their right captions.
    learned : sequence of str
        Captions that the captioner learned from.
    tokenizer : callable
        Of the towers.
    """
    keys = right["key"].drop_duplicates().tolist()
    new = captioner.caption(features, keys)
    room = room_for(captioner.settings.max_words)
    texts = (["" if caption.reason else caption.text for caption in new], right["caption"], learned)
    of_new, of_right, of_learned = (
        tokenized(tokenizer, [*map(tidy, some)], room) for some in texts
    )
    pictures = right["key"].map(dict(zip(keys, range(len(keys)), strict=True))).to_numpy()
    return compare(of_new, of_right, pictures, of_learned), new


def warning(result: HeldOut, is_used: bool) -> str:
    """Return what to do about a captioner that is no better than one caption for all."""
    use = "read some before you use them" if is_used else "none is used"
    return (
        f"recaption_pairs: on {result.pictures} trusted pairs that were held out, new captions are "
        f"no closer to the right ones (cosine {result.captioner:.3f}) than the most typical "
        f"trusted caption is ({result.typical:.3f}), so {use}. Trust more pairs, name another "
        "captioner, or set recaption_pairs.use_if_not_better: true."
    )


def compare(new: Tokens, right: Tokens, pictures: np.ndarray, learned: Tokens) -> HeldOut:
    """Compare new captions, and the most typical of others, with the right ones.

    Parameters
    ----------
    new : Tokens
        The new caption of each of n held-out pictures; without tokens where it is unusable.
    right : Tokens
        Right captions of these pictures.
    pictures : (m,) int array
        The picture, of n, of each right caption.
    learned : Tokens
        Captions that the captioner learned from.
    """
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.preprocessing import normalize

    ids = np.unique(np.concatenate([_inside(tokens)[1] for tokens in (new, right, learned)]))
    weighting = TfidfTransformer()
    before = weighting.fit_transform(_counts(learned, ids))
    of_right = weighting.transform(_counts(right, ids))
    of_new = weighting.transform(_counts(new, ids))[pictures]
    mean = normalize(np.asarray(before.mean(axis=0)).reshape(1, -1))
    typical = before[[int(np.argmax(before @ mean.T))]]
    number = np.bincount(pictures)
    cosines = [
        np.bincount(pictures, np.asarray(values).ravel()) / number
        for values in (of_right.multiply(of_new).sum(axis=1), (of_right @ typical.T).toarray())
    ]
    difference = cosines[0] - cosines[1]
    error = float(difference.std(ddof=1)) / len(number) ** 0.5
    return HeldOut(float(cosines[0].mean()), float(cosines[1].mean()), error, len(number))


def _inside(tokens: Tokens) -> tuple[np.ndarray, np.ndarray]:
    """Return the text and the number of every token."""
    inside = np.arange(tokens.ids.shape[1]) < tokens.lengths[:, None]
    return np.nonzero(inside)[0], tokens.ids[inside]


def _counts(tokens: Tokens, ids: np.ndarray) -> object:
    from scipy.sparse import csr_array

    texts, numbers = _inside(tokens)
    places = (texts, np.searchsorted(ids, numbers))
    return csr_array((np.ones(len(texts)), places), shape=(len(tokens.lengths), len(ids)))
