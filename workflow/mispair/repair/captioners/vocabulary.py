"""The tokens of some captions, by the tokenizer of towers, and their conversion back to text."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from mispair.core.files import UserError
from mispair.core.words import percent
from mispair.towers import joined

Tokenizer = Callable[..., Tensor]
"""From n texts, and the number of places, to token ids (n, places), filled up on the right."""

TEXTS_AT_ONCE = 4096
TRIED_TEXTS = 1000
LEAST_RESTORED = 0.98
"""Share of captions that must have the same tokens after they were turned into text again."""

END_OF_WORD = "</w>"


@dataclass(frozen=True)
class Tokens:
    """Tokens of n texts.

    Attributes
    ----------
    ids : (n, longest) int32 array
        Zero behind the end of a text.
    lengths : (n,) int64 array
        Tokens of each text.
    is_cut : (n,) bool array
        Whether the text may have had more tokens than places.
    """

    ids: np.ndarray
    lengths: np.ndarray
    is_cut: np.ndarray


@dataclass(frozen=True)
class Vocabulary:
    """The tokens that the captions of trusted pairs have; a decoder counts them from 0.

    Attributes
    ----------
    ids : (v,) int64 array
        Numbers of the tokens in the tokenizer, ascending.
    spell : callable
        From lists of these numbers to texts.
    """

    ids: np.ndarray
    spell: Callable[[list[list[int]]], list[str]]

    @property
    def start(self) -> int:
        """The token before each caption."""
        return len(self.ids)

    @property
    def end(self) -> int:
        """The token after each caption."""
        return len(self.ids) + 1

    @property
    def size(self) -> int:
        """Number of tokens with the two marks."""
        return len(self.ids) + 2

    def texts(self, tokens: np.ndarray, lengths: np.ndarray) -> list[str]:
        """Return the texts of tokens (n, room), counted from 0; `lengths` (n,) counts them."""
        ids = self.ids[tokens]
        rows = [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]
        return [tidy(text) for text in self.spell(rows)]


def tokenized(tokenizer: Tokenizer, texts: Sequence[str], places: int) -> Tokens:
    """Return the tokens of texts, without the marks that a tokenizer puts around them.

    Parameters
    ----------
    tokenizer : callable
        Of the towers. Its marks are those that it gives an empty text: none, one behind the
        text, or one before and one behind it.
    texts : sequence of str
        The n texts.
    places : int
        Most tokens of a text.

    Raises
    ------
    UserError
        If the tokenizer puts other marks around a text.
    """
    empty = tokenizer([""], places + 2)[0].numpy()
    marks = _length(empty[None], int(empty[-1]))[0]
    if marks > 2:
        raise UserError(
            "recaption_pairs: captioner trained needs a tokenizer that puts no mark around a text, "
            f"one behind it, or one on each side, and that of the towers puts {marks}. Take "
            "another captioner, or other towers."
        )
    before = int(marks == 2)
    blocks, lengths = [np.empty((0, places), np.int32)], [np.empty(0, np.int64)]
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        rows = tokenizer(list(texts[start : start + TEXTS_AT_ONCE]), places + 2).numpy()
        counts = _length(rows, int(empty[-1])) - marks
        inside = np.arange(places) < counts[:, None]
        block = rows[:, before : before + places]
        blocks.append(np.where(inside, block, 0).astype(np.int32))
        lengths.append(np.minimum(counts, places).astype(np.int64))
    ids, counts = np.concatenate(blocks), np.concatenate(lengths)
    return Tokens(ids[:, : counts.max(initial=0)], counts, counts >= places)


def _length(rows: np.ndarray, filler: int) -> np.ndarray:
    """Return the length of each row (n, places) without the filler at its end."""
    is_token = rows[:, ::-1] != filler
    return np.where(is_token.any(axis=1), rows.shape[1] - is_token.argmax(axis=1), 0)


def vocabulary_of(tokenizer: Tokenizer, tokens: Tokens) -> tuple[Vocabulary, np.ndarray]:
    """Return the vocabulary that some texts have, and their tokens counted in it.

    Parameters
    ----------
    tokenizer : callable
        Of the towers.
    tokens : Tokens
        Of n texts.

    Returns
    -------
    vocabulary : Vocabulary
        Of these texts.
    counted : (n, longest) int32 array
        The tokens, as numbers of the vocabulary; ``vocabulary.end`` behind the end of a text.

    Raises
    ------
    UserError
        If the texts cannot be restored from their tokens.
    """
    inside = np.arange(tokens.ids.shape[1]) < tokens.lengths[:, None]
    ids, places = np.unique(tokens.ids[inside], return_inverse=True)
    vocabulary = Vocabulary(ids.astype(np.int64), speller(tokenizer))
    counted = np.full(tokens.ids.shape, vocabulary.end, np.int32)
    counted[inside] = places
    _refuse_what_is_not_restored(tokenizer, vocabulary, tokens, counted)
    return vocabulary, counted


def _refuse_what_is_not_restored(
    tokenizer: Tokenizer, vocabulary: Vocabulary, tokens: Tokens, counted: np.ndarray
) -> None:
    # The last word of a text that was cut may be half a word, which has other tokens.
    some = np.flatnonzero((tokens.lengths > 0) & ~tokens.is_cut)[:TRIED_TEXTS]
    texts = vocabulary.texts(np.where(counted[some] < vocabulary.start, counted[some], 0),
                             tokens.lengths[some])  # fmt: skip
    again = tokenized(tokenizer, texts, tokens.ids.shape[1] + 1)
    width = min(again.ids.shape[1], tokens.ids.shape[1])
    same = (again.lengths == tokens.lengths[some]) & (
        again.ids[:, :width] == tokens.ids[some, :width]
    ).all(axis=1)
    if len(some) and same.mean() < LEAST_RESTORED:
        example = texts[int(np.argmin(same))]
        raise UserError(
            "recaption_pairs: captioner trained needs a tokenizer whose tokens can be turned into "
            f"text again. That of the towers restores {percent(same.mean(), 0)} of the trusted "
            f"captions; one of the others became {example!r}. Take another captioner, or other "
            "towers."
        )


def speller(tokenizer: Any) -> Callable[[list[list[int]]], list[str]]:
    """Return the function from tokens of open_clip's tokenizers, or of joined towers, to text."""
    inner = getattr(tokenizer, "__wrapped__", tokenizer)  # mispair.towers.loading.bounded
    if isinstance(inner, joined.JoinedTokenizer):
        return inner.spell
    if isinstance(getattr(inner, "decoder", None), dict):
        names: dict[int, str] = inner.decoder
    else:
        hugging_face = inner.tokenizer
        names = {number: name for name, number in hugging_face.get_vocab().items()}
        if not any(name.endswith(END_OF_WORD) for name in names.values()):
            decode = hugging_face.batch_decode
            return lambda rows: [str(text) for text in decode(rows, skip_special_tokens=True)]
    from open_clip.tokenizer import bytes_to_unicode

    # CLIP's tokens are bytes, each written as a letter; a file of them may have no decoder.
    byte_of = {letter: byte for byte, letter in bytes_to_unicode().items()}
    decoded: dict[int, bytes] = {}

    def piece(number: int) -> bytes:
        if number not in decoded:
            name = names.get(number, "")
            letters = name.removesuffix(END_OF_WORD)
            ending = b" " if letters != name else b""
            decoded[number] = bytes(byte_of[c] for c in letters if c in byte_of) + ending
        return decoded[number]

    return lambda rows: [
        b"".join(map(piece, row)).decode("utf-8", errors="replace") for row in rows
    ]


def tidy(text: str) -> str:
    """Return a text on one line, without the spaces that a tokenizer leaves around punctuation.

    Captions of public sets have such spaces, too ("by the ocean ."). They are left out before a
    tokenizer that sees spaces reads the captions, so that what it spells has the same tokens.

    Examples
    --------
    >>> tidy("A dog 's  bone , by the ocean .")
    "A dog's bone, by the ocean."
    """
    text = " ".join(text.split())
    text = re.sub(r" +([,.;:!?%)\]])", r"\1", text)
    text = re.sub(r"([(\[$#]) +", r"\1", text)
    text = re.sub(r" +'(s|t|re|ve|m|ll|d)\b", r"'\1", text)
    return text.strip()
