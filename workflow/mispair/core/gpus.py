"""Reservation of GPUs: each job on a machine has its own.

A process locks the devices that it uses until it ends. Without this, all jobs of a machine take
the first GPU. Jobs of other users are not seen: on a shared machine without a scheduler, name your
devices in CUDA_VISIBLE_DEVICES. Numbers there are those of nvidia-smi (the order of the PCI bus).

MIG instances are devices if CUDA_VISIBLE_DEVICES names them (``MIG-...``); otherwise a split GPU
counts once. AMD's GPUs are not listed, so they are not locked: let one job at a time use them
(``--resources gpu=1``).
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import stat
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from mispair.core.files import UserError

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
