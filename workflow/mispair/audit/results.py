"""Results of an audit beyond its rates: counts, a density, and a row for each pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from mispair.audit.pairs import Audited
from mispair.audit.score import Ranks
from mispair.core.metrics import Row
from mispair.pairs.index.identities import hexadecimal

BARS = 40
"""Bars of the histogram of p-values in the report."""


def corpus_rows(
    ranked: Ranks, pictures: np.ndarray, texts: np.ndarray, trusted: np.ndarray
) -> list[Row]:
    """Return counts of n pairs, and the density of their p-values in `BARS` bars, as rows.

    Parameters
    ----------
    ranked : Ranks
        Of the pairs.
    pictures, texts : (n,) int arrays
        Pictures and texts of the pairs by number.
    trusted : (n,) bool array
        Pairs known to be right.
    """
    n = len(texts)
    counts = {
        "pairs": n,
        "pictures": len(np.unique(pictures)),
        "trusted_pairs": int(trusted.sum()),
        "excluded_comparisons": ranked.excluded,
        "repeated_captions": n - len(np.unique(texts)),
        "weight_of_level": ranked.score_weights[0],
        "weight_of_neighbours": ranked.score_weights[1],
    }
    density = ranked.histograms[:, 0].sum(axis=0).reshape(BARS, -1).sum(axis=1) * BARS / n
    return [
        *({"metric": name, "value": value} for name, value in counts.items()),
        *(
            {"metric": "p_value_density", "at": (bar + 0.5) / BARS, "value": value}
            for bar, value in enumerate(density)
        ),
    ]


def pair_table(
    keys: Any,
    audited: Audited,
    ranked: Ranks,
    near: np.ndarray | None,
    probability: np.ndarray,
    trusted: np.ndarray,
    described: Mapping[str, np.ndarray],
) -> pd.DataFrame:
    """Return a row for each pair: its key and caption, similarity, score, ranks, probability.

    Parameters
    ----------
    keys : pyarrow array of str
        Keys of the pictures of the corpus.
    audited, ranked : Audited, Ranks
        The n pairs.
    near : (n,) array or None
        Ranks among the most similar captions, if there are any.
    probability : (n,) array
        That the caption is wrong.
    trusted : (n,) bool array
        Pairs known to be right.
    described : mapping of str to (n,) arrays
        Further columns, on the text of each caption.
    """
    return pd.DataFrame(
        {
            "key": keys.take(pa.array(audited.image)).to_pandas(),
            "caption_id": hexadecimal(audited.caption_ids).to_pylist(),
            "similarity": ranked.similarity,
            "score": ranked.score,
            "p_value": ranked.p_value,
            "picture_p_value": ranked.picture_p_value,
            "neighbour_p_value": np.full(len(audited), np.nan) if near is None else near,
            "probability": probability,
            "trusted": trusted,
            **described,
        }
    )
