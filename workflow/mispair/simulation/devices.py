"""Where the study computes, and in which arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from mispair.files import UserError


def choose_device(wanted: str) -> str:
    """Return ``cpu`` or ``cuda`` for ``auto``, ``cpu`` or ``cuda``.

    Raises
    ------
    UserError
        If ``cuda`` is wanted and there is none.
    """
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise UserError(
            "simulate.device: cuda is not available on this machine. Set it to auto or cpu."
        )
    return "cuda" if wanted == "cuda" or (wanted == "auto" and available) else "cpu"


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
