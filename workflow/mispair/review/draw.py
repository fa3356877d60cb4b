"""A random sample of pairs for a person: strata, how many of each, which ones, in which order."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from mispair.core import files
from mispair.core.files import UserError
from mispair.pairs.captions.caption_texts import CaptionedPairs
from mispair.pairs.corruption.draws import streams, uniforms
from mispair.pairs.index.books import read_columns
from mispair.pairs.index.identities import identities

DESIGN = "design"
"""Metadata of a sample: corpus, size, seed, strata and digest, as JSON."""

STRATA = 10
"""Strata of the probability of a wrong caption."""
FLOOR = 4
"""Pairs that are drawn of each stratum first."""
PROPORTIONAL = 0.85
"""Part of the sample that is spread by the size of the strata; the rest by their spread, too.

`STRATA`, `FLOOR` and `PROPORTIONAL` were chosen by simulation (``python -m bench.review``): with
more by spread, or more strata, intervals at small shares are wider or cover less.
"""
SPREAD = 0.02
"""Least standard deviation of a stratum: no model is certain of all of its pairs."""


def strata(probability: np.ndarray) -> np.ndarray:
    """Return the stratum of each pair, (n,) int from 0 in the order of probabilities.

    Pairs in order of their probability p are cut into `STRATA` parts of an equal sum of
    0.7 √(p (1 - p)) / mean + 0.3, so that a part is smaller where the caption is less certain
    (Dalenius and Hodges 1959, JASA 54, 88). Without a finite probability there is one stratum.
    """
    if not len(probability) or not np.isfinite(probability).all():
        return np.zeros(len(probability), np.int64)
    order = np.argsort(probability, kind="stable")
    size = np.sqrt(np.clip(probability[order] * (1 - probability[order]), 0, None))
    mean = size.mean()
    share = np.cumsum(0.7 * (size / mean if mean > 0 else np.ones_like(size)) + 0.3)
    parts = np.minimum((share / share[-1] * STRATA - 1e-12).astype(np.int64), STRATA - 1)
    found = np.empty(len(probability), np.int64)
    found[order] = np.unique(parts, return_inverse=True)[1]
    return found


def allocation(pairs: np.ndarray, spread: np.ndarray, size: int) -> np.ndarray:
    """Return how many pairs are drawn of each stratum, (H,) int; a larger size has none fewer.

    Places are given one after another: the first of each stratum, its second, up to `FLOOR`, and
    then to the stratum with the most of its quota left (Webster's method), as in elections. The
    quota mixes the size of strata with Neyman's allocation by size times standard deviation.

    Parameters
    ----------
    pairs, spread : (H,) arrays
        Pairs of the strata, and standard deviations within them.
    size : int
        Pairs to draw; all pairs if there are fewer.
    """
    weight = pairs / pairs.sum()
    neyman = weight * spread / (weight @ spread) if weight @ spread > 0 else weight
    quota = PROPORTIONAL * weight + (1 - PROPORTIONAL) * neyman
    most = np.minimum(pairs, size)
    of = np.repeat(np.arange(len(pairs)), most)
    place = np.concatenate([np.arange(number) for number in most])
    first = place < FLOOR
    rank = np.where(first, place, FLOOR + (place + 0.5) / quota[of])
    taken = of[np.argsort(rank, kind="stable")[:size]]
    return np.bincount(taken, minlength=len(pairs))


def sizes(of: np.ndarray, probability: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of each stratum, and how many of them are drawn, two (H,) int arrays.

    `of` and `probability` are stratum and probability of each pair; `size` pairs are drawn.
    """
    pairs = np.bincount(of)
    mean = np.bincount(of, np.nan_to_num(probability)) / pairs
    return pairs, allocation(pairs, np.sqrt(mean * (1 - mean) + SPREAD**2), size)


def draw(
    keys: Sequence[str], probability: np.ndarray, size: int, seed: int
) -> tuple[pd.DataFrame, list[dict[str, int]]]:
    """Draw a sample of n pairs; a larger one with the same seed has all pairs of a smaller one.

    Each key has a permanent random number (Ohlsson 1995), which follows from the seed and the key.
    Of each stratum those with the smallest numbers are drawn, which is a simple random sample.

    Parameters
    ----------
    keys : sequence of str
        Distinct keys of the pairs.
    probability : (n,) array
        That the caption is wrong; not finite without a model.
    size : int
        Pairs to draw.
    seed : int
        Of the random numbers.

    Returns
    -------
    sample : DataFrame
        In the order in which pairs are shown: ``row`` (place among the pairs), ``key``,
        ``stratum``, ``order``, ``probability`` and ``share`` (inclusion probability). The order is
        random; of each stratum one pair is among the first, and then all strata advance alike, so
        that a person can stop early.
    counts : list of dict
        Of each stratum ``pairs`` and ``drawn``.
    """
    of = strata(probability)
    pairs, drawn = sizes(of, probability, size)
    starts = streams(keys, seed, "review")
    order = np.lexsort((starts, of))
    rank = np.empty(len(of), np.int64)
    rank[order] = np.arange(len(of)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    rows = np.flatnonzero(rank < drawn[of])
    stratum, rank = of[rows], rank[rows]
    turn = np.where(rank == 0, 0, rank + uniforms(starts[rows], 0)) / drawn[stratum]
    shown = np.lexsort((starts[rows], turn))
    sample = pd.DataFrame(
        {
            "row": rows,
            "key": [keys[row] for row in rows.tolist()],
            "stratum": stratum,
            "probability": probability[rows],
            "share": drawn[stratum] / pairs[stratum],
        }
    ).iloc[shown].reset_index(drop=True)  # fmt: skip
    sample.insert(3, "order", np.arange(len(sample)))
    counts = [{"pairs": int(a), "drawn": int(b)} for a, b in zip(pairs, drawn, strict=True)]
    return sample, counts


# The files that a sample is drawn from, and its own.


def probabilities(audit: Path | None, pairs: CaptionedPairs) -> np.ndarray:
    """Return the probability that the caption of each of n pairs is wrong, (n,); NaN without one.

    `audit` is a table of ``key``, ``caption_id`` and ``probability``, sorted by key, with every
    caption of every picture.
    """
    if audit is None:
        return np.full(len(pairs.caption_ids), np.nan)
    table, _ = read_columns(audit, ["key", "caption_id", "probability"])
    keys = table["key"].combine_chunks()
    begins = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False).astype(bool)
    picture = np.concatenate([[0], np.cumsum(begins)])
    drawn = identities(table["caption_id"]) == pairs.caption_ids[picture]
    found = np.full(len(pairs.caption_ids), np.nan)
    found[picture[drawn]] = table["probability"].to_numpy()[drawn].astype(float)
    return found


def read_kept(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the sample and the design of a file that `draw_review` wrote.

    Raises
    ------
    UserError
        If the file is none.
    """
    try:
        table, metadata = files.read_parquet(path)
    except UserError:
        table, metadata = pd.DataFrame(), {}
    if DESIGN not in metadata or not {"key", "stratum", "order", "share"} <= {*table.columns}:
        raise UserError(
            f"draw_review.kept: {path} is no sample of mispair. Give a copy of "
            "results/review/CORPUS/TOWERS/sample.parquet."
        )
    return table, json.loads(metadata[DESIGN])
