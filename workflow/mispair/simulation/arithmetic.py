"""In which arithmetic the study computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Treat numbers below the normal range as zero on the CPU.

    The softmax of a trained model is full of them (a trailing pair's share is easily 1e-40), and
    arithmetic on them makes a step four times slower. On processors without this the results are
    the same to rounding, only later.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
