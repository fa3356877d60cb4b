"""The files of the study: trees, encoders and heads, each saying what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from mispair.core.devices import choose_device, free_memory
from mispair.core.files import UserError, read_tensors, write_tensors
from mispair.sufficiency.encoders import ROWS, UNTRAINED, load_weights
from mispair.sufficiency.heads import Head, start_head
from mispair.sufficiency.names import Arm, Task
from mispair.sufficiency.sizes import Size, refuse_too_large
from mispair.sufficiency.transformer import Towers
from mispair.sufficiency.trees import Skeletons

Precision = Literal["float32", "float64"]


def prepared(device: str) -> str:
    """Return the device to compute on; on a CPU sums are in one order on every machine."""
    chosen = choose_device(device)
    if chosen == "cpu":
        torch.set_num_threads(1)
    return chosen


def dtype_of(precision: Precision) -> torch.dtype:
    """Return a number format by its name."""
    dtype: torch.dtype = getattr(torch, precision)
    return dtype


def refuse(needed: int, device: str, what: str, remedy: str) -> None:
    """Stop before an allocation that cannot work.

    Raises
    ------
    UserError
        If it is too large for the memory of the machine, or of its GPU.
    """
    try:
        refuse_too_large(needed, free_memory(device), what, remedy)
    except ValueError as error:
        raise UserError(f"{error}.") from error


def refuse_too_many_samples(
    step: str, size: Size, samples: int, device: str, dtype: torch.dtype
) -> None:
    """Stop before a step draws so many pairs of such trees that they cannot be held.

    Raises
    ------
    UserError
        If they are too many for the memory of the machine, or of its GPU.
    """
    refuse(
        size.bytes_of_samples(samples) + size.bytes_of_messages(min(ROWS, samples), dtype.itemsize),
        device,
        f"{step}: {samples:,} pairs of {size.leaves:,} leaves each",
        f"lower {step}.samples, or draw_trees.depth or branching",
    )


def read_trees(path: Path) -> tuple[Skeletons, dict[str, str]]:
    """Read what draw_trees wrote: the trees, and which they are."""
    arrays, metadata = read_tensors(path)
    return Skeletons.of_arrays(arrays), metadata


def which(metadata: dict[str, str]) -> dict[str, Any]:
    """Return the columns that name trees, from what their file says."""
    return {"size": metadata["size"], "tree": int(metadata["tree"])}


def write_weights(path: Path, weights: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write weights with what they are."""
    write_tensors(path, {name: value.cpu().numpy() for name, value in weights.items()}, metadata)


def read_towers(path: Path, device: str, trained: bool = True) -> tuple[Towers, dict[str, str]]:
    """Read encoders as they were trained, or as they were before, for evaluation alone."""
    arrays, metadata = read_tensors(path)
    sizes = (int(metadata[name]) for name in ("leaves", "symbols", "width", "blocks"))
    towers = Towers(*sizes)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    load_weights(towers, tensors, "trained" if trained else UNTRAINED)
    return towers.to(device).requires_grad_(False), metadata


def read_head(path: Path, skeletons: Skeletons, device: str) -> tuple[Head, dict[str, str]]:
    """Read a trained head, for evaluation alone."""
    arrays, metadata = read_tensors(path)
    task: Task = "cdm" if metadata["task"] == "cdm" else "vlm"
    arm: Arm = metadata["arm"]  # type: ignore[assignment]
    head = start_head(task, arm, skeletons.size, int(metadata["width"]), int(metadata["blocks"]), 0)
    load_weights(head, {name: torch.from_numpy(array) for name, array in arrays.items()}, "trained")
    return head.to(device).requires_grad_(False), metadata
