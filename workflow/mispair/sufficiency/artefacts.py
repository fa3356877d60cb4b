"""The files of the study: trees, encoders, heads and measures, each with its metadata."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mispair.core.devices import choose_device
from mispair.core.files import read_tensors, write_tensors
from mispair.core.metrics import Row, write_metrics
from mispair.sufficiency.encoders import ROWS, UNTRAINED, TreeEncoders, load_weights
from mispair.sufficiency.heads import Head, start_head
from mispair.sufficiency.measures import Setting
from mispair.sufficiency.settings import Arm, Measuring, Task, refuse_too_large
from mispair.sufficiency.trees import Skeletons

Metadata = dict[str, str]


def prepared(device: str) -> str:
    """Return the device to compute on; on a CPU make sums run in one order on every machine."""
    chosen = choose_device(device)
    if chosen == "cpu":
        torch.set_num_threads(1)
    return chosen


def read_trees(path: Path) -> tuple[Skeletons, Metadata]:
    """Read what draw_trees wrote."""
    arrays, metadata = read_tensors(path)
    return Skeletons.of_arrays(arrays), metadata


def read_setting(
    step: str, settings: Measuring, trees: Path, flip: float, seed: int | None, samples: int
) -> tuple[Setting, Metadata]:
    """Read the trees that a step measures on, with their metadata.

    Without a `seed`, the seed of the trees is used.

    Raises
    ------
    UserError
        If the samples do not fit into the memory of the machine, or of its GPU.
    """
    device = prepared(settings.device)
    dtype: torch.dtype = getattr(torch, settings.precision)
    skeletons, metadata = read_trees(trees)
    size = skeletons.size
    refuse_too_large(
        size.bytes_of_samples(samples) + size.bytes_of_messages(min(ROWS, samples), dtype.itemsize),
        device,
        f"{step}: {samples:,} pairs of {size.leaves:,} leaves each",
        f"lower {step}.samples, or draw_trees.depth or branching",
    )
    seed = int(metadata["tree"]) if seed is None else seed
    return Setting(skeletons, flip, seed, device, dtype), metadata


def write_measures(
    path: Path, rows: Sequence[Row], setting: Setting, settings: Measuring, metadata: Metadata
) -> None:
    """Write the measurements of one training, each row with its trees, flip and seed."""
    keys = {**tree_columns(metadata), "flip": setting.flip, "seed": setting.seed}
    provenance = {"settings": settings.model_dump(), "trees": metadata, "device": setting.device}
    write_metrics(path, [{**keys, **row} for row in rows], provenance)


def tree_columns(metadata: Metadata) -> dict[str, Any]:
    """Return the columns that name trees."""
    return {"size": metadata["size"], "tree": int(metadata["tree"])}


def write_weights(path: Path, weights: dict[str, Tensor], metadata: Metadata) -> None:
    """Write weights with their metadata."""
    write_tensors(path, {name: value.cpu().numpy() for name, value in weights.items()}, metadata)


def _loaded(module: nn.Module, arrays: dict[str, Any], name: str, device: str) -> Any:
    """Load the weights under a name into a module; return it for evaluation only."""
    load_weights(module, {key: torch.from_numpy(array) for key, array in arrays.items()}, name)
    return module.to(device).requires_grad_(False)


def read_towers(path: Path, device: str, trained: bool = True) -> tuple[TreeEncoders, Metadata]:
    """Read encoders with the weights after training, or before it, for evaluation only."""
    arrays, metadata = read_tensors(path)
    towers = TreeEncoders(
        *(int(metadata[name]) for name in ("leaves", "symbols", "width", "blocks"))
    )
    return _loaded(towers, arrays, "trained" if trained else UNTRAINED, device), metadata


def read_head(path: Path, skeletons: Skeletons, device: str) -> tuple[Head, Metadata]:
    """Read a trained head, for evaluation only."""
    arrays, metadata = read_tensors(path)
    task: Task = "cdm" if metadata["task"] == "cdm" else "vlm"
    arm: Arm = metadata["arm"]  # type: ignore[assignment]
    head = start_head(task, arm, skeletons.size, int(metadata["width"]), int(metadata["blocks"]), 0)
    return _loaded(head, arrays, "trained", device), metadata
