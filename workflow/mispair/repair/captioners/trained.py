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
from mispair.core.training.loop import train
from mispair.pairs.corruption.key_draws import streams
from mispair.repair.captioners.decoding import Marks, choice, decode, room_for
from mispair.repair.captioners.faults import Caption, Draft, check
from mispair.repair.captioners.recurrent import Reading, RecurrentDecoder
from mispair.repair.captioners.training import Captions, loss_of_step, plan
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
        reading = Reading(self.decoder, given)
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
        See `mispair.core.training.loop.train`.

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
    captions = Captions(
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
