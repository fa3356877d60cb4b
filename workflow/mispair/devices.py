"""Where a step computes, and what it is called."""

from __future__ import annotations

import os
import platform
import resource
import sys
from pathlib import Path
from typing import Literal

from mispair import gpus
from mispair.files import UserError

Precision = Literal["fp32", "bf16", "fp16"]
"""Number formats in which frozen towers can run (`mispair.towers.precision`)."""


def choose_device(wanted: str) -> str:
    """Return ``cpu`` or ``cuda`` for ``auto``, ``cpu`` or ``cuda``; a GPU is this process's own.

    Waits while other jobs use all GPUs of the machine (`mispair.gpus`). Call it before anything
    touches CUDA.

    Raises
    ------
    UserError
        If ``cuda`` is wanted and there is none: never a silent run on the CPU.
    """
    if wanted == "cpu":
        return "cpu"
    import torch

    if torch.version.cuda is not None:
        gpus.reserve()
    if torch.cuda.is_available():
        return "cuda"
    gpus.release()
    if wanted == "cuda":
        raise UserError("device: cuda is not available on this machine. Set device to auto or cpu.")
    return "cpu"


def device_in_use() -> str:
    """Return the name of what this process computed on so far."""
    if names := [gpu.name for gpu in gpus.held() if gpu.name]:
        return names[0] if len(names) == 1 else f"{len(names)} x {names[0]}"
    torch = sys.modules.get("torch")
    return device_name("cuda" if torch is not None and torch.cuda.is_initialized() else "cpu")


def device_name(device: str) -> str:
    """Return the name of the GPU, or ``cpu`` and the model as far as the system tells it."""
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    model = _listed("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()
    return f"cpu ({model})"


def peak_memory(device: str) -> int:
    """Return the most memory in bytes that this process has held: of the GPU's, or resident."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated()
    # Not `getrusage` where there is another way: on Linux it counts what the parent held, too.
    if number := _listed("/proc/self/status", "VmHWM"):
        return 1024 * int(number.split()[0])
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest


def usable_cores() -> int:
    """Return how many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _listed(path: str, name: str) -> str | None:
    """Return what the first line with this name says in a list that Linux keeps."""
    source = Path(path)
    for line in source.read_text(encoding="utf-8").splitlines() if source.is_file() else []:
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None
