"""Where the study computes."""

from __future__ import annotations

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
