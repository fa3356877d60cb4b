"""Words of captions: bags of words, without their order, and tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

_WORD = re.compile(r"[a-z0-9]+")


def words_of(caption: str) -> list[str]:
    """Return the words of a caption in their order, in lower case and without punctuation.

    Examples
    --------
    >>> words_of("The star, a red one")
    ['the', 'star', 'a', 'red', 'one']
    """
    return _WORD.findall(caption.lower())


def vocabulary(captions: Iterable[str]) -> list[str]:
    """Return every word of some captions once, sorted; words are letters and digits.

    Examples
    --------
    >>> vocabulary(["A red star", "the star, 3"])
    ['3', 'a', 'red', 'star', 'the']
    """
    return sorted({word for caption in captions for word in words_of(caption)})


def bags(captions: Sequence[str], known_words: Sequence[str]) -> np.ndarray:
    """Return which words of a vocabulary each caption has, (n, len(known)) uint8.

    A word outside the vocabulary is left out, as a tower has no weights for it.

    Examples
    --------
    >>> bags(["the red star"], ["blue", "red", "star"]).tolist()
    [[0, 1, 1]]
    """
    column = {word: number for number, word in enumerate(known_words)}
    rows = np.zeros((len(captions), len(known_words)), np.uint8)
    for row, caption in zip(rows, captions, strict=True):
        row[[column[word] for word in words_of(caption) if word in column]] = 1
    return rows


# The words of captions as tokens, for captioners that learn on features of small towers.

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
