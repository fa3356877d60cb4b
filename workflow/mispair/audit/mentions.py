"""Which features captions name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mispair.audit.captions import NO_TEXT
from mispair.audit.lookup import all_places
from mispair.core.files import UserError
from mispair.pairs.index.books import read_columns
from mispair.pairs.index.identities import identities

MOST_FEATURES = 1000


def read_words(path: Path) -> list[list[str]]:
    """Read a list of features: one a line, words for it separated by commas, # starts a remark.

    Raises
    ------
    UserError
        If the file is no text, has no or too many features, or a word twice.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"words: {path} cannot be read as text ({error}).") from error
    features = [
        [word.strip() for word in line.split("#")[0].split(",") if word.strip()] for line in lines
    ]
    features = [words for words in features if words]
    if not 0 < len(features) <= MOST_FEATURES:
        raise UserError(
            f"words: {path} has {len(features)} features; give 1 to {MOST_FEATURES}, one a line, "
            "with all words for it separated by commas."
        )
    seen: set[str] = set()
    for word in (word.lower() for words in features for word in words):
        if word in seen:
            raise UserError(f"words: {path} has {word!r} twice. A word can name only one feature.")
        seen.add(word)
    return features


def named_features(
    texts: Sequence[Path], caption_ids: np.ndarray, features: Sequence[Sequence[str]]
) -> np.ndarray:
    """Return which features each caption names, (n, ceil(w / 8)) uint8, as `numpy.packbits` packs.

    A word counts where it is separate, in any case, with or without an English plural ending.

    Parameters
    ----------
    texts : sequence of Path
        Tables of ``caption_id`` and ``caption``.
    caption_ids : (n,) uint64 array
        Identities of captions.
    features : sequence of sequences of str
        The words for each of w features.
    """
    import pyarrow.compute as pc

    patterns = [
        rf"(?i)(?:^|[^\pL\pN])(?:{'|'.join(map(re.escape, words))})(?:s|es)?(?:$|[^\pL\pN])"
        for words in features
    ]
    packed = np.zeros((len(caption_ids), -(-len(features) // 8)), np.uint8)
    filled = np.zeros(len(caption_ids), bool)
    order = np.argsort(caption_ids, kind="stable")
    ordered = caption_ids[order]
    for path in texts:
        table, _ = read_columns(path, ["caption_id", "caption"])
        named = [
            pc.match_substring_regex(table["caption"], pattern).to_numpy() for pattern in patterns
        ]
        bits = np.packbits(np.stack(named, axis=1).astype(bool), axis=1)
        places, which = all_places(identities(table["caption_id"]), ordered)
        packed[order[places]] = bits[which]
        filled[order[places]] = True
    if not filled.all():
        raise UserError(NO_TEXT)
    return packed
