"""What a scheme of corruption reads and returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from mispair.core import seeds

STEP = "corrupt-captions"


@dataclass(frozen=True)
class Sources:
    """Files that the schemes read; each scheme reads only what it needs.

    Attributes
    ----------
    index : mapping of str to Path
        The index of each group: the captions' texts.
    similar, truth : sequence of Path
        The table of most similar captions; the tables of features of pictures and captions.
    """

    index: Mapping[str, Path]
    similar: Sequence[Path] = ()
    truth: Sequence[Path] = ()


@dataclass(frozen=True)
class Corrupted:
    """The result of a scheme for n pairs.

    Attributes
    ----------
    given : (n,) uint64 array
        Identity of the caption that each pair has now.
    swapped : (n,) bool array
        Whether it is the caption of another pair.
    shares : dict of str to str
        Metadata that only some schemes have.
    note : str
        Why the nominal rate was not reached, in one sentence, or "".
    written_ids : (c,) uint64 array
        Identities of texts that no pair had before, sorted.
    written : pyarrow.LargeStringArray
        Those texts.
    source : (n,) int64 array, optional
        Position of the pair whose caption each pair has now; None where a scheme draws captions
        and not pairs.
    """

    given: np.ndarray
    swapped: np.ndarray
    shares: dict[str, str] = field(default_factory=dict)
    note: str = ""
    written_ids: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))
    written: pa.LargeStringArray = field(default_factory=lambda: pa.array([], pa.large_string()))
    source: np.ndarray | None = None


def subset(seed: int) -> np.random.Generator:
    """Return the generator that chooses the pairs of a rate.

    Schemes that change whole captions share it, so that they corrupt the same pairs.
    """
    return seeds.generator(seed, STEP, "random")


def rounding(chosen: int, pairs: int, rate: float) -> str:
    """Return a note if the chosen share is more than 0.005 from the rate, else an empty text."""
    if not pairs or abs(chosen / pairs - rate) <= 0.005:
        return ""
    return f"{chosen} of {pairs} pairs is the whole number of pairs nearest to {rate:g}."
