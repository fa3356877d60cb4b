"""Random generators that depend on their purpose alone.

A draw is named by a few parts (a seed, a step, an arm, a trial ...), so that the number of cores,
the order of jobs and the presence of other arms do not change it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch


def integer(*parts: object) -> int:
    """Return a 63-bit integer that is a function of the parts' text alone.

    Examples
    --------
    >>> integer(0, "shuffle") == integer(0, "shuffle") != integer(1, "shuffle")
    True
    """
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(*parts: object) -> np.random.Generator:
    """Return a NumPy generator named by the parts."""
    import numpy as np

    return np.random.default_rng(integer(*parts))


def torch_generator(*parts: object) -> torch.Generator:
    """Return a torch generator of the CPU, named by the parts.

    Numbers for a GPU are also drawn on the CPU and uploaded (`mispair.core.devices.upload`): the
    generators of a GPU give other numbers.
    """
    import torch

    return torch.Generator().manual_seed(integer(*parts))
