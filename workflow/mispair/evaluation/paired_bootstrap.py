"""Is one arm better than another on the same images? The paired bootstrap of their difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Difference:
    """A mean difference with its 95 % interval and two-sided p value, over n images."""

    value: float
    low: float
    high: float
    p: float
    n: int


def difference(
    correct: np.ndarray,
    reference: np.ndarray,
    generator: np.random.Generator,
    resamples: int = 10_000,
) -> Difference:
    """Return the difference in accuracy of two arms, with images resampled in pairs.

    Of every image the share of an arm's seeds that are right is taken first: the interval tells
    how much the difference would vary with other images, for the seeds that there are. It is the
    percentile interval (Efron and Tibshirani 1993, chapter 13). The p value is twice the smaller
    share of resampled differences on either side of zero, with one added to both counts, so it
    is never zero; it is below 0.05 where the interval excludes zero, up to rounding.

    A mean over resampled images depends only on how often each distinct value was drawn. So a
    resample is one draw of a multinomial distribution over the few values that occur instead of
    n draws of images, with exactly the same distribution.

    Parameters
    ----------
    correct, reference : (s, n) and (r, n) bool arrays
        Whether each seed of an arm is right about each image; both arms see the same images.
    generator : numpy.random.Generator
        Where the resamples come from.
    resamples : int
        Number of resamples.

    Raises
    ------
    ValueError
        If there is no image, or the numbers of images differ.
    """
    n = correct.shape[1]
    if n == 0 or n != reference.shape[1]:
        raise ValueError(f"arms on {n} and {reference.shape[1]} images cannot be compared in pairs")
    seeds = len(correct), len(reference)
    # In units of one over the product of the numbers of seeds differences are whole.
    units = seeds[1] * correct.sum(axis=0, dtype=np.int64)
    units -= seeds[0] * reference.sum(axis=0, dtype=np.int64)
    values, counts = np.unique(units, return_counts=True)
    drawn = generator.multinomial(n, counts / n, size=resamples) @ values
    low, high = np.quantile(drawn, [0.025, 0.975])
    tail = min((drawn <= 0).sum(), (drawn >= 0).sum())
    unit = 1 / (seeds[0] * seeds[1] * n)
    return Difference(
        value=float(units.sum() * unit),
        low=float(low * unit),
        high=float(high * unit),
        p=float(min(1.0, 2 * (tail + 1) / (resamples + 1))),
        n=n,
    )
