"""Draws that depend on a pair's key and on their purpose, for millions of keys at once.

A generator for each key would take a hundred times as long. Here a key is hashed to 64 bits
(BLAKE2b, keyed by the name of the draw), and its draws are the outputs of SplitMix64 with that
seed, each computed from its own number alone. They do not depend on other keys, on the order of
keys, or on the interpreter's hash of strings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from mispair.core import seeds

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)


def streams(keys: Iterable[str], *name: object) -> np.ndarray:
    """Return where the draws of each key start, (n,) uint64, for `uniforms`.

    `name` is the purpose of the draws, such as a seed and a scheme; other names give other draws.
    """
    secret = seeds.integer(*name).to_bytes(8, "big")
    digests = (hashlib.blake2b(key.encode(), digest_size=8, key=secret).digest() for key in keys)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64, copy=False)


def uniforms(starts: np.ndarray, number: np.ndarray | int) -> np.ndarray:
    """Return a draw from each stream, by its number from 0: float64 in [0, 1), 53 random bits.

    `number` is broadcast against `starts`, which come from `streams`.

    References
    ----------
    G. L. Steele, D. Lea and C. H. Flood, Fast splittable pseudorandom number generators,
    OOPSLA 2014 (SplitMix64).
    """
    # Arrays wrap around silently, scalars would warn.
    numbers = np.atleast_1d(np.asarray(number, dtype=np.uint64))
    state = starts + (numbers + np.uint64(1)) * _GOLDEN
    for shift, factor in _MIX:
        state = (state ^ (state >> shift)) * factor
    state ^= state >> np.uint64(31)
    return np.asarray((state >> np.uint64(11)) * 2.0**-53)
