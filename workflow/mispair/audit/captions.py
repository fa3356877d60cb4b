"""The captions of pairs: which have the same words, and which are most similar."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from mispair.audit.lookup import first_places
from mispair.core.files import UserError
from mispair.pairs.index.books import read_columns
from mispair.pairs.index.identities import identities

NO_TEXT = "audit: a caption of the corpus has no text. Run gather_index again."


def text_groups(texts: Sequence[Path], caption_ids: np.ndarray) -> np.ndarray:
    """Return a number for each caption, the same for the same words, (n,) int64.

    Case, punctuation and spaces make no difference: such captions are right for the same pictures.

    Parameters
    ----------
    texts : sequence of Path
        Tables of ``caption_id`` and ``caption``.
    caption_ids : (n,) uint64 array
        Identities of captions.
    """
    import pyarrow.compute as pc

    ids, bare_texts = [], []
    for path in texts:
        table, _ = read_columns(path, ["caption_id", "caption"])
        ids.append(identities(table["caption_id"]))
        bare = pc.utf8_lower(pc.replace_substring_regex(table["caption"], r"[^\pL\pN]+", " "))
        bare_texts.append(pc.utf8_trim_whitespace(bare).cast(pa.large_string()))
    ids_of_texts = np.concatenate([np.zeros(0, np.uint64), *ids])
    codes = pa.chunked_array(
        [chunk for part in bare_texts for chunk in part.chunks], pa.large_string()
    )
    numbers = codes.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    places = first_places(caption_ids, ids_of_texts)
    if (places < 0).any():
        raise UserError(NO_TEXT)
    return numbers[places]


def nearest_captions(similar: Path, caption_ids: np.ndarray) -> np.ndarray:
    """Return for each pair other pairs that have the most similar captions, best first.

    Parameters
    ----------
    similar : Path
        What find_similar_captions wrote.
    caption_ids : (n,) uint64 array
        Captions of the pairs.

    Returns
    -------
    (n, k) int64 array
        Positions of pairs; -1 where a caption has fewer neighbours.
    """
    table, _ = read_columns(similar, ["caption_id", "neighbour_ids"])
    ids = identities(table["caption_id"])
    lists = table["neighbour_ids"].combine_chunks()
    offsets = lists.offsets.to_numpy()
    flat = identities(pa.chunked_array([lists.flatten()], pa.string()))
    lengths = np.diff(offsets)
    columns = np.arange(int(lengths.max(initial=0)))
    at = np.minimum((offsets[:-1] - offsets[0])[:, None] + columns, max(len(flat) - 1, 0))
    by_caption = np.where(columns < lengths[:, None], first_places(flat, caption_ids)[at], -1)
    row = first_places(caption_ids, ids)
    return np.where((row >= 0)[:, None], by_caption[row], -1)
