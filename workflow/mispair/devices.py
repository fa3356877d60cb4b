"""Where a step computes."""

from __future__ import annotations

from mispair.files import UserError


def choose_device(wanted: str) -> str:
    """Return ``cpu`` or ``cuda`` for ``auto``, ``cpu`` or ``cuda``.

    Raises
    ------
    UserError
        If ``cuda`` is wanted and there is none: never a silent run on the CPU.
    """
    import torch

    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise UserError("device: cuda is not available on this machine. Set device to auto or cpu.")
    return "cuda" if available and wanted != "cpu" else "cpu"
