"""What a scheme of corruption reads and returns, and how wrong captions are afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from mispair.core import seeds
from mispair.pairs.scenes.scene_captions import codes, read_caption

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


SHARES = (
    "wrong_feature_share",
    "false_caption_share",
    "unnamed_feature_share",
    "replaced_true_share",
    "replaced_same_features_share",
    "replaced_right_feature_share",
)
"""Names of the shares of `effective_rate`."""

COUNTS = ("distinct_captions", "most_used_caption")
"""Names of the counts of `variety`."""


def effective_rate(
    pictures: np.ndarray, before: np.ndarray, after: np.ndarray, replaced: np.ndarray
) -> dict[str, float]:
    """Measure how wrong the captions of a corpus are after a scheme of corruption.

    A nominal rate counts the pairs that get another caption. Another caption may still be true of
    the picture, so equal nominal rates of two schemes are not equal doses. The two effective rates
    count what is wrong in the captions that the pairs have afterwards: by features, the mean over
    pairs of the share of the caption's features that the picture does not have; by captions, the
    share of pairs whose caption names at least one such feature. Both are 0 for true captions.
    Features that a caption leaves out do not make it wrong; they are counted separately.

    Parameters
    ----------
    pictures, before, after : (n, f) bool array
        The features that each picture has, and that its caption names before and after.
    replaced : (n,) bool array
        Whether the pair has another text.

    Returns
    -------
    dict of str to float
        Shares in [0, 1], by the names of `SHARES`: the effective rate by features, and that by
        captions; the mean over pairs of the share of the picture's features that the caption does
        not name; the share of the replaced captions that are entirely true of the picture, and of
        those that name the same features as the caption before; and the mean over replaced captions
        of the share of named features that the picture has. Shares of no replaced caption are nan.
    """
    wrong = _share(after & ~pictures, after)
    values = (
        wrong,
        wrong > 0,
        _share(pictures & ~after, pictures),
        wrong[replaced] == 0,
        (before == after).all(axis=1)[replaced],
        1 - wrong[replaced],
    )
    return {name: _mean(value) for name, value in zip(SHARES, values, strict=True)}


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return the share of each row's true entries; 0 for a row without any."""
    return np.asarray(part.sum(axis=1) / np.maximum(whole.sum(axis=1), 1))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def named_codes(captions: Sequence[str]) -> np.ndarray:
    """Return the features that sentences about scenes name as binary codes, (n, f) bool."""
    return codes([read_caption(caption) for caption in captions])


def variety(given: np.ndarray) -> dict[str, int]:
    """Count the distinct captions of pairs, (n,) uint64, and the pairs with the commonest.

    Returns the counts by the names of `COUNTS`.
    """
    _, times = np.unique(given, return_counts=True)
    return dict(zip(COUNTS, (len(times), int(times.max(initial=0))), strict=True))
