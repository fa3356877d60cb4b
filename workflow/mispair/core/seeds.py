"""Random generators that depend on what they are for, and on nothing else.

A draw is named by a few parts (a seed, a step's name, an arm, a trial ...), so that neither the
number of cores, nor the order of jobs, nor the presence of another arm changes it.
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

    Numbers for a GPU are drawn with it, too, and uploaded (`mispair.core.devices.upload`): a GPU's
    generators give other numbers.
    """
    import torch

    return torch.Generator().manual_seed(integer(*parts))
