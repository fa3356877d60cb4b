"""Pairs of a corpus from files: pictures, captions and their words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from PIL import Image

from mispair.core.files import UserError, read_tensors
from mispair.pairs.captions.caption_texts import read_texts
from mispair.pairs.index.books import read_columns
from mispair.pairs.index.identities import identities
from mispair.pairs.index.image_list import locations, read_images

if TYPE_CHECKING:
    from torch import Tensor


def texts_of(
    caption_ids: Sequence[str], index: Sequence[Path], written: Sequence[Path] = ()
) -> list[str]:
    """Return the captions of pairs by their identities of 16 hexadecimal digits.

    Texts that are not in the index, such as those that a scheme of corruption wrote, are in the
    tables `written`: ``caption_id`` and ``caption``.

    Raises
    ------
    UserError
        If a text is in none of the files.
    """
    numbers = identities(caption_ids)
    decoded: dict[int, str] = {}
    for path in written:
        table, _ = read_columns(path, ["caption_id", "caption"])
        ids = identities(table["caption_id"])
        decoded |= dict(zip(ids.tolist(), table["caption"].to_pylist(), strict=True))
    missing = np.array([number not in decoded for number in numbers.tolist()], bool)
    decoded |= read_texts(index, numbers[missing])
    return [decoded[number] for number in numbers.tolist()]


def held_out_rows(pairs: int, held_out: int, draw: np.random.Generator) -> np.ndarray:
    """Return the rows of pairs that are not trained on, sorted, (held_out,) int64.

    Raises
    ------
    ValueError
        If fewer than two pairs are left to train on.
    """
    if held_out > pairs - 2:
        raise ValueError(f"{held_out} of {pairs} pairs held out leave fewer than two to train on")
    return np.sort(draw.permutation(pairs)[:held_out])


def pictures_of(path: Path, pairs: str) -> np.ndarray:
    """Read the pictures of a table of pairs, named by the fingerprint of its keys.

    Raises
    ------
    UserError
        If the file has the pictures of other pairs.
    """
    arrays, metadata = read_tensors(path)
    if metadata.get("pairs") != pairs:
        raise UserError(f"{path}: has the pictures of other pairs. Delete it and run again.")
    return arrays["pictures"]


def in_rows(pairs: pd.DataFrame, encoded: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return keys and features of a group of shards in the rows that its index gives to pictures.

    Parameters
    ----------
    pairs : DataFrame
        ``key`` and ``row`` of n kept pairs of the group.
    encoded : (n, d) float32 array
        Features of their pictures.

    Returns
    -------
    list of m str, (m, d) float32 array
        A picture that is not among the kept pairs has a row with an empty key and NaN.
    """
    places = pairs["row"].to_numpy()
    length = int(places.max(initial=-1)) + 1
    keys = np.full(length, "", object)
    features = np.full((length, encoded.shape[1]), np.nan, np.float32)
    keys[places], features[places] = pairs["key"].to_numpy(object), encoded
    return [*keys], features


# Pictures of a whole corpus as one array of small squares.


def resized(image: Image.Image, side: int) -> np.ndarray:
    """Return an RGB picture averaged to `side` by `side` pixels, (side, side, 3) uint8."""
    return np.asarray(image.convert("RGB").resize((side, side), Image.Resampling.BOX))


def read_pictures(
    pairs: pd.DataFrame,
    index: Mapping[str, pd.DataFrame],
    shards: Sequence[Path],
    side: int,
    progress: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """Decode and resize the picture of every pair, (n, side, side, 3) uint8 in their order.

    Parameters
    ----------
    pairs : DataFrame
        ``key`` and ``group`` of each of n pairs.
    index : mapping of str to DataFrame
        The index of each group, as `mispair.pairs.steps.index_shards` writes it.
    shards : sequence of Path
        The shards that the indexes name.
    progress : callable
        Takes the number of decoded pictures.

    Raises
    ------
    UserError
        If a pair is in no index, or a shard is missing or was changed.
    """
    paths = {path.name: path for path in shards}
    names = zip(pairs["group"], pairs["key"], strict=True)
    rows = {name: row for row, name in enumerate(names)}
    pictures = np.zeros((len(pairs), side, side, 3), np.uint8)
    done = 0
    for group, table in index.items():
        for shard, part in table.groupby("shard", sort=True):
            kept = part[[(group, key) in rows for key in part["key"]]]
            if kept.empty:
                continue
            if shard not in paths:
                raise UserError(f"decode_pictures: the index of group {group} names {shard}, which "
                                "is not among the shards given.")  # fmt: skip
            images = read_images(paths[str(shard)], locations(kept))
            for key, image in zip(kept["key"], images, strict=True):
                pictures[rows[group, key]] = resized(image, side)
                done += 1
            progress(done)
    if done != len(pairs):
        raise UserError(
            f"decode_pictures: {len(pairs) - done} of {len(pairs)} pairs of the corpus are in no "
            "index. Delete the corpus and run again."
        )
    return pictures


# Words of captions: bags of words, without their order, and tokens.

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
        import torch

        ids = torch.full((len(texts), places), FILLER)
        for row, text in zip(ids, texts, strict=True):
            tokens = [self._tokens[word] for word in words_of(text) if word in self._tokens]
            tokens = [*tokens[: places - 1], END]
            row[: len(tokens)] = torch.tensor(tokens)
        return ids
