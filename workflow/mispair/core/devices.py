"""Devices on which steps compute: choice, names, memory."""

from __future__ import annotations

import logging
import os
import platform
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from mispair.core import gpus
from mispair.core.files import UserError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")

MEMORY_SHARE = 0.8
"""Share of the memory that a job may plan to take."""

KERNELS = "ATEN_CPU_CAPABILITY"
"""Variable that chooses torch's kernels, and so the rounding of a result."""

INSTRUCTIONS = {"avx512f": "avx512", "avx2": "avx2"}
"""Flags of a processor and torch's names of the kernels that they allow, the widest first."""

Precision = Literal["fp32", "bf16", "fp16"]
"""Number formats in which frozen towers can run (`mispair.towers.precision`)."""


def choose_device(requested: str) -> str:
    """Return ``cpu`` or ``cuda`` for ``auto``, ``cpu`` or ``cuda``, and reserve a GPU.

    Waits while other jobs use all GPUs of the machine (`mispair.core.gpus`). Call it before
    anything touches CUDA.

    Raises
    ------
    UserError
        If ``cuda`` is requested and not available.
    """
    if requested == "cpu":
        return "cpu"
    import torch

    if torch.version.cuda is not None:
        gpus.reserve()
    if torch.cuda.is_available():
        compute_repeatably()
        return "cuda"
    gpus.release()
    if requested == "cuda":
        raise UserError("device: cuda is not available on this machine. Set device to auto or cpu.")
    return "cpu"


def compute_repeatably() -> None:
    """Make a GPU give the same bytes in each run, as far as CUDA can.

    Products keep all bits of float32 (no TF32), cuDNN chooses no algorithm by speed, cuBLAS has a
    workspace for each stream, and an operation without a deterministic algorithm warns. Call it
    before anything touches CUDA.
    """
    import torch

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Tensors are written before they are read, so filling new ones only takes time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def upload(values: Tensor, device: str | torch.device) -> Tensor:
    """Return a tensor on a device, copied from the CPU if needed, without waiting for a GPU."""
    if str(device) == "cpu" or values.is_cuda:
        return values
    return values.pin_memory().to(device, non_blocking=True)


def device_in_use() -> str:
    """Return the name of the device on which this process has computed so far."""
    if (gpu := gpus.held()) is not None and gpu.name:
        return gpu.name
    torch = sys.modules.get("torch")
    return device_name("cuda" if torch is not None and torch.cuda.is_initialized() else "cpu")


def device_name(device: str) -> str:
    """Return the name of the GPU, or ``cpu`` with its model and its vector instructions.

    Two devices of one name give the same bytes. Models of virtual machines are named by their
    brand alone, so the instructions are part of the name.
    """
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    model = _listed("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()
    parts = [model, os.environ.get(KERNELS, "").lower() or _instructions()]
    return f"cpu ({', '.join(part for part in parts if part)})"


def _instructions() -> str:
    """Return the widest vector instructions of this processor, or an empty string."""
    flags = (_listed("/proc/cpuinfo", "flags") or "").split()
    return next((name for flag, name in INSTRUCTIONS.items() if flag in flags), "")


def peak_memory(device: str) -> int:
    """Return the peak memory of this process in bytes: of the GPU, or resident."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated()
    # Not `getrusage` on Linux, where it includes the memory of the parent.
    if number := _listed("/proc/self/status", "VmHWM"):
        return 1024 * int(number.split()[0])
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest


def free_memory(device: str) -> int:
    """Return the unused bytes of a GPU, or the total bytes of this machine's memory."""
    if device == "cuda":
        import torch

        return int(torch.cuda.mem_get_info()[0])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error is due to a lack of memory, of a GPU or of the machine."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # Errors of allocations by cuBLAS and cuDNN have no class.
    signs = ("can't allocate memory", "ALLOC_FAILED", "CUDA error: out of memory")
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)


def in_portions(
    items: Sequence[Item], size: int, what: str, run: Callable[[Sequence[Item]], Result]
) -> Iterator[Result]:
    """Yield the results of a function on portions of items, halved where memory runs out.

    The first portion has `size` items; `what` is the name of the items in messages.

    Raises
    ------
    UserError
        If memory does not hold a single item.
    """
    start = 0
    while start < len(items):
        portion = items[start : start + size]
        try:
            result = run(portion)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            reason = str(error).partition("\n")[0]
        else:
            start += len(portion)
            yield result
            continue
        # Outside `except`, because the frames of the error would keep its memory in use.
        size = len(portion) // 2
        if not size:
            raise UserError(
                f"memory does not hold one of the {what} ({reason}). Set device to cpu, or use a "
                "device with more memory."
            )
        log.warning("out of memory with %d %s: going on with %d (%s)",
                    len(portion), what, size, reason)  # fmt: skip
        if "torch" in sys.modules:
            sys.modules["torch"].cuda.empty_cache()


def usable_cores() -> int:
    """Return how many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _listed(path: str, name: str) -> str | None:
    """Return the value of a name in a list of the Linux kernel, or None."""
    source = Path(path)
    for line in source.read_text(encoding="utf-8").splitlines() if source.is_file() else []:
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None
