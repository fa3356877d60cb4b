"""Devices on which steps compute: choice, reservation, names, memory."""

from __future__ import annotations

import fcntl
import logging
import os
import platform
import re
import resource
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from mispair.core.files import UserError

if TYPE_CHECKING:
    import torch
    from torch import Tensor


# Reservation of GPUs: each job on a machine has its own.
#
# A process locks the devices that it uses until it ends. Without this, all jobs of a machine take
# the first GPU. Jobs of other users are not seen: on a shared machine without a scheduler, name
# your devices in CUDA_VISIBLE_DEVICES. Numbers there are those of nvidia-smi (the order of the PCI
# bus).
#
# MIG instances are devices if CUDA_VISIBLE_DEVICES names them (``MIG-...``); otherwise a split GPU
# counts once. AMD's GPUs are not listed, so they are not locked: let one job at a time use them
# (``--resources gpu=1``).

log = logging.getLogger(__name__)

VISIBLE = "CUDA_VISIBLE_DEVICES"
RESERVED = "MISPAIR_GPUS_RESERVED"
"""Set for the processes that a holder starts; a user sets it to switch the locks off."""
LOCKS = Path(f"/tmp/mispair-gpus-{os.getuid()}")
"""One folder for each device, not below TMPDIR, which schedulers set for each job."""
POLL = 0.5
"""Seconds between two checks of devices that are all busy."""


class Gpu(NamedTuple):
    """A device: its entry in CUDA_VISIBLE_DEVICES, the name of its lock, and its model."""

    entry: str
    lock: str
    name: str


_held: dict[Gpu, int] = {}
"""The device of this process, if it has one, and its open lock."""
_former: list[str | None] = []


class Gpus(int):
    """How many GPUs a job takes, and the section whose `device` says so."""

    section = ""


def on_this_machine() -> list[Gpu]:
    """Return NVIDIA's GPUs that this job can reach, in the order of their indices."""
    if command := shutil.which("nvidia-smi"):
        listed = subprocess.run([command, "-L"], capture_output=True, text=True, check=False)
        pattern = r"^GPU \d+: (.+) \(UUID: (GPU-[^)]+)\)"
        if names := re.findall(pattern, listed.stdout, re.MULTILINE):
            return [Gpu(uuid, uuid, name) for name, uuid in names]
    # A scheduler may count from 0 in each of its jobs, so the number of the job is part of a lock.
    job = os.environ.get("SLURM_JOB_ID", "")
    paths = (path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*"))
    numbers = sorted(int(number) for number in paths if number.isdecimal())
    return [Gpu(str(number), f"{job}-{number}", "") for number in numbers]


def usable() -> list[Gpu]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names, or all; read as CUDA reads it."""
    gpus = on_this_machine()
    visible = os.environ.get(VISIBLE)
    if visible is None or not gpus:
        return gpus
    chosen: list[Gpu] = []
    for entry in map(str.strip, visible.split(",")):
        if entry.isdecimal() and int(entry) < len(gpus):
            # By its UUID if that is known: CUDA may number the cards in another order.
            chosen.append(gpus[int(entry)])
        elif entry.startswith("MIG-"):
            chosen.append(Gpu(entry, entry, ""))
        else:
            matches = [gpu for gpu in gpus if entry and gpu.lock.startswith(entry)]
            if len(matches) != 1:
                break  # CUDA, too, ignores all entries after one that names no device
            chosen.append(matches[0]._replace(entry=entry))
    return chosen


def reserve() -> str | None:
    """Lock a GPU until this process ends, and hide all others from CUDA.

    Call it before anything touches CUDA. It waits while all are busy. It returns the new
    CUDA_VISIBLE_DEVICES; None on a machine without NVIDIA's GPUs.

    Raises
    ------
    UserError
        If the locks cannot be made.
    """
    gpus = list(_held) or usable()
    if not gpus:
        return None
    if not _held and not os.environ.get(RESERVED):
        gpus = [_wait_for(gpus)]
        _former[:] = [os.environ.get(VISIBLE)]
        os.environ[VISIBLE] = gpus[0].entry
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # for entries that are numbers
        os.environ[RESERVED] = "1"
    return gpus[0].entry


def release() -> None:
    """Release the GPU that `reserve` locked, if CUDA cannot be used."""
    if not _held:
        return
    for lock in _held.values():
        os.close(lock)
    _held.clear()
    os.environ.pop(RESERVED)
    (former,) = _former
    if former is None:
        os.environ.pop(VISIBLE)
    else:
        os.environ[VISIBLE] = former


def held() -> Gpu | None:
    """Return the GPU that this process has locked."""
    return next(iter(_held), None)


def _wait_for(gpus: list[Gpu]) -> Gpu:
    """Lock the first of some GPUs that is free."""
    started, waits = time.monotonic(), False
    while (gpu := next(filter(_take, gpus), None)) is None:
        if not waits:
            waits = True
            log.info("of %d GPUs, none is free: waiting (%s=1 switches this off)",
                     len(gpus), RESERVED)  # fmt: skip
        time.sleep(POLL)
    waited = f" after {time.monotonic() - started:.0f} s" if waits else ""
    log.info("uses GPU %s%s", f"{gpu.name} {gpu.lock}".strip(), waited)
    return gpu


def _take(gpu: Gpu) -> bool:
    if (lock := _lock(gpu)) is not None:
        _held[gpu] = lock
    return lock is not None


def _lock(gpu: Gpu) -> int | None:
    """Return an open lock of a GPU, or None if another process has it."""
    # A folder and not a file: programs that clear old files out of /tmp keep locked folders.
    folder = LOCKS / re.sub(r"[^A-Za-z0-9-]", "_", gpu.lock)
    try:
        LOCKS.mkdir(mode=0o700, exist_ok=True)
        status = LOCKS.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise PermissionError(0, "is not a folder of yours")
        folder.mkdir(mode=0o700, exist_ok=True)
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise UserError(
            f"{error.filename or LOCKS}: cannot be used for locks of GPUs ({error.strerror}). "
            f"Remove it, or set {RESERVED}=1 to switch locks off."
        ) from error
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened)
        return None
    return opened


def _forget() -> None:
    """Close the locks in a forked child, so that it does not keep them after its parent."""
    for lock in _held.values():
        os.close(lock)
    _held.clear()


os.register_at_fork(after_in_child=_forget)


Item = TypeVar("Item")
Result = TypeVar("Result")

MEMORY_SHARE = 0.8
"""Share of the memory that a job may plan to take."""

KERNELS = "ATEN_CPU_CAPABILITY"
"""Variable that chooses torch's kernels, and so the rounding of a result."""

INSTRUCTIONS = {"avx512f": "avx512", "avx2": "avx2"}
"""Flags of a processor and torch's names of the kernels that they allow, the widest first."""

Precision = Literal["fp32", "bf16", "fp16"]
"""Number formats in which frozen towers can run (`mispair.towers.preparation`)."""


def choose_device(requested: str) -> str:
    """Return ``cpu`` or ``cuda`` for ``auto``, ``cpu`` or ``cuda``, and reserve a GPU.

    Waits while other jobs use all GPUs of the machine (`reserve`). Call it before
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
        reserve()
    if torch.cuda.is_available():
        compute_repeatably()
        return "cuda"
    release()
    if requested == "cuda":
        raise UserError("device: cuda is not available on this machine. Set device to auto or cpu.")
    return "cpu"


def has_gpu() -> bool:
    """Return whether this machine has an NVIDIA GPU, without importing torch."""
    return any(Path("/dev").glob("nvidia[0-9]*"))


def has_cuda() -> bool:
    """Return whether ``cuda`` is available: in WSL and for AMD's GPUs, torch alone knows it."""
    if has_gpu():
        return True
    import torch

    return torch.cuda.is_available()


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
    if (gpu := held()) is not None and gpu.name:
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


def is_by_intel() -> bool:
    """Return whether this processor is known to be one by Intel."""
    return _listed("/proc/cpuinfo", "vendor_id") == "GenuineIntel"


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
    if resident := _peak_of("self"):
        return resident
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest


_workers = 0


def count_workers() -> None:
    """Take the peak memory of the child processes that live now into `peak_with_workers`."""
    from multiprocessing import active_children

    global _workers
    _workers = max(_workers, sum(_peak_of(child.pid) for child in active_children()))


def peak_with_workers() -> int:
    """Return the peak memory of this process and its workers together in bytes.

    Workers are those that `count_workers` saw; systems other than Linux tell nothing of them.
    """
    return peak_memory("cpu") + _workers


def _peak_of(process: int | str | None) -> int:
    number = _listed(f"/proc/{process}/status", "VmHWM")
    return 1024 * int(number.split()[0]) if number else 0


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
