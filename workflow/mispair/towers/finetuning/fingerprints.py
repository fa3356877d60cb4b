"""What the fine-tuning of each seed depends on, in a few digits."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from mispair.core import provenance
from mispair.towers.features import PairedFeatures
from mispair.towers.finetuning.finetuning_settings import FinetuningLength
from mispair.towers.finetuning.projection import Projections

ROWS_OF_MARKS = 4096
"""Rows that are summed at a time, in the processor's cache."""


def fingerprints(
    features: PairedFeatures, initial: Projections, training: FinetuningLength, seeds: Sequence[int]
) -> list[str]:
    """Return for each seed 16 hexadecimal digits that change with all that its run depends on.

    They do not depend on the other seeds, nor on the captions that only others use.
    """
    images = _marks(features.image_features).reshape(-1, features.crops)
    texts = _marks(features.text_features)
    prints = []
    for draw, seed in enumerate(seeds):
        of_seed = features.of_draws(slice(draw, draw + 1))
        image_marks = images if of_seed.image_rows is None else images[of_seed.image_rows[0]]
        arrays = [image_marks, texts[of_seed.text_rows[0]]]
        optional = of_seed.weights, of_seed.keeps_caption
        arrays += [array for array in optional if array is not None]
        if of_seed.choices is not None:
            starts, counts = of_seed.choices.starts[0], of_seed.choices.counts[0]
            offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            places = np.repeat(starts, counts) + offsets
            arrays += [counts, texts[of_seed.choices.captions[places]]]
        arrays += [initial.image[draw], initial.text[draw], initial.logit_scale[draw : draw + 1]]
        parts = [str(training), str(seed), str(features.crops)]
        for array in arrays:
            content = np.ascontiguousarray(array)
            parts += [f"{array.dtype} {array.shape}", hashlib.sha256(content.data).hexdigest()]
        prints.append(provenance.fingerprint(parts))
    return prints


def _marks(rows: np.ndarray) -> np.ndarray:
    """Return a 64-bit sum of each row, (n,) uint64, which differs where rows do.

    A digest of each draw's features would read them once a seed.
    """
    word = np.uint32 if rows.shape[1] * rows.itemsize % 4 == 0 else np.uint16
    words = np.ascontiguousarray(rows).view(word)
    factors = np.random.default_rng(0).integers(1 << 63, size=words.shape[1], dtype=np.uint64)
    marks = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), ROWS_OF_MARKS):
        block = slice(start, start + ROWS_OF_MARKS)
        marks[block] = words[block].astype(np.uint64) @ (2 * factors + 1)
    return marks
