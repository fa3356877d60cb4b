"""The words of captions as tokens, for captioners that learn on features of small towers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mispair.pretraining.words import words_of

FILLER, END, FIRST = 0, 1, 2
"""Token after a text, token that ends it, and token of the first word."""

END_OF_WORD = "</w>"
"""Ends the spelling of a word, as in the tokenizers of CLIP."""


class WordTokenizer:
    """Turns captions into the words of a vocabulary in their order, as an open_clip tokenizer does.

    Attributes
    ----------
    decoder : dict
        Spelling of each token.

    Examples
    --------
    >>> WordTokenizer(["blue", "red", "star"])(["A red star."], 5).tolist()
    [[3, 4, 1, 0, 0]]
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._tokens = {word: number for number, word in enumerate(vocabulary, FIRST)}
        self.decoder = {number: f"{word}{END_OF_WORD}" for word, number in self._tokens.items()}

    def __call__(self, texts: Sequence[str], places: int) -> Tensor:
        """Return tokens (n, places) int64; a word outside the vocabulary is left out."""
        ids = torch.full((len(texts), places), FILLER)
        for row, text in zip(ids, texts, strict=True):
            tokens = [self._tokens[word] for word in words_of(text) if word in self._tokens]
            tokens = [*tokens[: places - 1], END]
            row[: len(tokens)] = torch.tensor(tokens)
        return ids
