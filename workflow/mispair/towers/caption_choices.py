"""The captions among which a pair's caption is drawn at each step of a fine-tuning."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from mispair.pairs.corruption.draws import SOURCE, column
from mispair.pairs.index.books import read_columns


@dataclass(frozen=True)
class CaptionChoices:
    """The captions of each pair in one or more draws of n pairs.

    The memory is 16 bytes for each pair and draw, and 8 bytes for each of the m captions as a row.

    Attributes
    ----------
    captions : (m,) array
        Captions, grouped by pair: their identities (str), or their rows (int64) in the features of
        captions.
    starts : (draws, n) int64 array
        Position in `captions` of the first caption that each pair may have; 0 if there is none.
    counts : (draws, n) int64 array
        Number of these captions; 0 where the pair always has the caption of its pairing.
    """

    captions: np.ndarray
    starts: np.ndarray
    counts: np.ndarray

    def of_draws(self, some: slice) -> CaptionChoices:
        """Return the choices of some of the draws."""
        return dataclasses.replace(self, starts=self.starts[some], counts=self.counts[some])


def read_choices(
    corpus: Path, pairing: pd.DataFrame, chosen: Sequence[np.ndarray]
) -> CaptionChoices | None:
    """Return the captions, by identity, that each pair of a pairing may have; None if all have one.

    These are the captions of the pair that the pairing's caption came from. A caption that a scheme
    or a captioner wrote came from no pair and has no alternatives.

    Parameters
    ----------
    corpus : Path
        Corpus of the pairing.
    pairing : DataFrame
        ``key``, and for each draw ``caption_source``.
    chosen : sequence of (n,) int arrays
        Positions of the pairs of each draw in the pairing.

    Raises
    ------
    ValueError
        If the pairing is of other pairs, or older than the column ``caption_source``.
    """
    table, _ = read_columns(corpus, ["key", "caption_id", "more_caption_ids"])
    further = table["more_caption_ids"].combine_chunks()
    several = pc.fill_null(pc.list_value_length(further), 0).to_numpy(zero_copy_only=False)
    if not several.any():
        return None
    keys = pa.chunked_array([pa.array(pairing["key"], pa.large_string())])
    if SOURCE not in pairing or not table["key"].cast(pa.large_string()).equals(keys):
        raise ValueError(
            f"the pairing does not have the pairs of {corpus} and the pair that each caption came "
            "from (caption_source). Run corrupt_captions again"
        )
    sources = np.stack(
        [pairing[column(SOURCE, draw)].to_numpy()[rows] for draw, rows in enumerate(chosen)]
    )
    drawn = (sources >= 0) & (several[sources] > 0)
    if not drawn.any():
        return None
    used, numbers = np.unique(sources[drawn], return_inverse=True)
    lengths = 1 + several[used].astype(np.int64)
    begins = np.cumsum(lengths) - lengths
    captions = np.empty(lengths.sum(), object)
    is_first = np.zeros(len(captions), bool)
    is_first[begins] = True
    captions[is_first] = table["caption_id"].take(pa.array(used)).to_numpy()
    captions[~is_first] = further.take(pa.array(used)).flatten().to_numpy(zero_copy_only=False)
    starts, counts = np.zeros((2, *sources.shape), np.int64)
    starts[drawn], counts[drawn] = begins[numbers], lengths[numbers]
    return CaptionChoices(captions, starts, counts)
