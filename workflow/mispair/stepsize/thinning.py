"""Steps of a long run that are kept: all early ones, later ones evenly on a log scale."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def kept_steps(steps: int, points: int, first: int = 0) -> NDArray[np.int64]:
    """Return distinct steps from 0 to `steps`, both among them.

    These are all steps up to `first`, and at most `points` more on a log scale.

    Examples
    --------
    >>> kept_steps(1000, 4).tolist(), kept_steps(100, 2, first=2).tolist()
    ([0, 1, 10, 100, 1000], [0, 1, 2, 100])
    """
    spread = np.rint(np.geomspace(1, steps, points)).astype(np.int64)
    early = np.arange(min(first, steps) + 1)
    return np.unique(np.concatenate([[0], early, spread]))
