"""The captioner `trained`: learns from the captions of trusted pairs, reads cached features."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from mispair.core import seeds
from mispair.core.files import UserError
from mispair.core.provenance import fingerprint
from mispair.core.training.loop import Plan, train
from mispair.pairs.corruption.key_draws import streams
from mispair.repair.captioners.decoding import Decoding, Marks, decode, room_for
from mispair.repair.captioners.faults import Caption, Draft, check
from mispair.repair.captioners.recurrent import Reading, RecurrentDecoder
from mispair.repair.captioners.training import Captions, loss_of_step
from mispair.repair.captioners.vocabulary import (
    Tokenizer,
    Vocabulary,
    tokenized,
    vocabulary_of,
)

if TYPE_CHECKING:
    from mispair.core.resume import FileKeeper

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
    decoding : Decoding
        How tokens are chosen.
    max_words, candidates : int
        Largest number of words, and captions that are drawn until one is usable.
    seed : int
        Of the draws, which depend on the keys of the pictures, too.
    device : str
        Where the decoder is.
    """

    decoder: RecurrentDecoder
    vocabulary: Vocabulary
    decoding: Decoding
    max_words: int
    candidates: int
    seed: int
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
        rounds = self.candidates if self.decoding.method == "nucleus" else 1
        for number in range(rounds):
            some = [keys[int(row)] for row in waiting]
            for row, draft in zip(
                waiting, self._drafts(features[waiting], some, number), strict=True
            ):
                captions[row] = check(draft, self.max_words)
            waiting = np.array([row for row in waiting if captions[row].reason], dtype=np.int64)
            if not len(waiting):
                break
        return captions

    @torch.inference_mode()
    def _drafts(self, features: np.ndarray, keys: Sequence[str], number: int) -> list[Draft]:
        given = torch.from_numpy(features.astype(np.float32)).to(self.device)
        vocabulary = self.vocabulary
        marks = Marks(vocabulary.start, (vocabulary.end,), (vocabulary.start,))
        room = room_for(self.max_words)
        choose = self.decoding.choice(streams(keys, self.seed, "caption", number))
        reading = Reading(self.decoder, given)
        tokens, lengths = decode(reading, len(keys), marks, room, choose, self.device)
        texts = vocabulary.texts(tokens, np.where(lengths < 0, room, lengths))
        return [Draft(text, bool(length < 0)) for text, length in zip(texts, lengths, strict=True)]


def fit(
    features: np.ndarray,
    pictures: np.ndarray,
    texts: Sequence[str],
    tokenizer: Tokenizer,
    plan: Plan,
    decoding: Decoding,
    *,
    batch_size: int,
    seed: int,
    width: int,
    layers: int,
    max_words: int,
    candidates: int = 1,
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
    plan : Plan
        Of the training.
    decoding : Decoding
        How tokens are chosen afterwards.
    batch_size : int
        Captions of a batch.
    seed : int
        Of the first weights, the order of the captions, and the draws of tokens.
    width, layers : int
        Of the decoder.
    max_words, candidates : int
        See `TrainedCaptioner`.
    device : str
        Where the decoder computes.
    keeper, progress
        See `mispair.core.training.loop.train`.

    Raises
    ------
    UserError
        If there are too few captions, or the tokenizer is not supported.
    """
    tokens = tokenized(tokenizer, texts, room_for(max_words))
    some = np.flatnonzero(tokens.lengths > 0)
    if len(some) < FEWEST_CAPTIONS:
        raise UserError(
            f"recaption_pairs: captioner trained has {len(some)} trusted captions to learn from, "
            f"and needs {FEWEST_CAPTIONS}. Trust more pairs, or take another captioner."
        )
    vocabulary, counted = vocabulary_of(tokenizer, tokens)
    captions = Captions(
        counted[some],
        tokens.lengths[some],
        tokens.is_cut[some],
        np.asarray(pictures)[some],
        vocabulary.start,
        vocabulary.end,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeds.integer(seed, "captioner", "first weights"))
        decoder = RecurrentDecoder(features.shape[1], vocabulary.size, width, layers)
    given = torch.from_numpy(features.astype(np.float32)).to(device)
    decoder.to(device).standardise(given)
    loss = loss_of_step(decoder, given, captions, batch_size, seed)
    losses = train(decoder, loss, plan, keeper, progress).cpu()
    log.info(
        "trained on %d captions of %d tokens: loss %.3f at last",
        len(some), len(vocabulary.ids), float(losses[-20:].mean()),
    )  # fmt: skip
    decoder.eval().requires_grad_(False)
    captioner = TrainedCaptioner(decoder, vocabulary, decoding, max_words, candidates, seed, device)
    return captioner, losses.numpy()
