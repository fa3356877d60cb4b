"""What an optimiser of PyTorch remembers, as tensors by name: for states that are kept."""

from __future__ import annotations

import torch
from torch import Tensor


def memory_of(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return what an optimiser remembers of each parameter, by name; the tensors go on changing."""
    return {
        f"optimiser.{number}.{name}": values
        for number, memory in optimiser.state_dict()["state"].items()
        for name, values in memory.items()
        if isinstance(values, Tensor)
    }


def restore_memory(optimiser: torch.optim.Optimizer, state: dict[str, Tensor]) -> None:
    """Give an optimiser back what `memory_of` returned; other entries stay unread."""
    memory: dict[int, dict[str, Tensor]] = {}
    for key, values in state.items():
        if key.startswith("optimiser."):
            _, number, name = key.split(".")
            memory.setdefault(int(number), {})[name] = values
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": memory, "param_groups": groups})
