"""Which GPUs of this machine a process has to itself: of several jobs side by side, each its own.

A process locks the devices that it uses until it ends, however it ends. Without this, all jobs of
one machine take the first GPU. Other users' jobs are not seen: where a machine is shared without a
scheduler, name the devices that are yours in CUDA_VISIBLE_DEVICES. Numbers there are those of
nvidia-smi (the order of the PCI bus), also where CUDA alone would count the fastest card first.

MIG instances are devices of their own if CUDA_VISIBLE_DEVICES names them (``MIG-...``); otherwise
a GPU that is split counts once. AMD's GPUs are not listed here, so nothing is locked there: let
one job at a time use them (``--resources gpu=1``).
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
"""Set for the processes that a holder starts; a user who sets it does without locks."""
LOCKS = Path(f"/tmp/mispair-gpus-{os.getuid()}")
"""One folder for each device. Not below TMPDIR: schedulers give each job another one."""
POLL = 0.5
"""Seconds between two looks at devices that are all busy."""


class Gpu(NamedTuple):
    """A device: how CUDA_VISIBLE_DEVICES names it, what its lock is called, and its model."""

    entry: str
    lock: str
    name: str


_held: dict[Gpu, int] = {}
_former: list[str | None] = []


def on_this_machine() -> list[Gpu]:
    """Return NVIDIA's GPUs that this job can reach, in the order of their indices."""
    if command := shutil.which("nvidia-smi"):
        listed = subprocess.run([command, "-L"], capture_output=True, text=True, check=False)
        pattern = r"^GPU \d+: (.+) \(UUID: (GPU-[^)]+)\)"
        if names := re.findall(pattern, listed.stdout, re.MULTILINE):
            return [Gpu(uuid, uuid, name) for name, uuid in names]
    # Indices alone: a scheduler may count from 0 in each of its jobs, so its number goes with them.
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
            # By its UUID where that is known: CUDA may number the cards in another order.
            chosen.append(gpus[int(entry)])
        elif entry.startswith("MIG-"):
            chosen.append(Gpu(entry, entry, ""))
        else:
            matches = [gpu for gpu in gpus if entry and gpu.lock.startswith(entry)]
            if len(matches) != 1:
                break  # CUDA, too, ignores what stands after an entry that names no device
            chosen.append(matches[0]._replace(entry=entry))
    return chosen


def reserve(count: int = 1) -> list[str]:
    """Lock GPUs until this process ends, and make CUDA see no others.

    Call it before anything touches CUDA. If too few are free it waits; all that are asked for are
    taken at once or none, so two that want several never wait for each other.

    Parameters
    ----------
    count : int
        How many.

    Returns
    -------
    list of str
        The entries of CUDA_VISIBLE_DEVICES from now on; none on a machine without NVIDIA's GPUs.

    Raises
    ------
    UserError
        If there are GPUs, but fewer than `count`, or the locks cannot be made.
    """
    gpus = list(_held) or usable()
    if not gpus:
        return []
    if len({gpu.lock for gpu in gpus}) < count:
        raise UserError(
            f"{count} GPUs are wanted, and this job may use {len(gpus)} "
            f"({', '.join(gpu.entry for gpu in gpus)}). Ask for fewer, or see {VISIBLE}."
        )
    if not _held and not os.environ.get(RESERVED):
        _wait_for(gpus, count)
        gpus = list(_held)
        _former[:] = [os.environ.get(VISIBLE)]
        os.environ[VISIBLE] = ",".join(gpu.entry for gpu in gpus)
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # what numbers of cards without a UUID mean
        os.environ[RESERVED] = "1"
    return [gpu.entry for gpu in gpus[:count]]


def release() -> None:
    """Give back what `reserve` took: CUDA turned out to be of no use."""
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


def held() -> list[Gpu]:
    """Return the GPUs that this process has locked."""
    return list(_held)


def _wait_for(gpus: list[Gpu], count: int) -> None:
    started, waits = time.monotonic(), False
    while not _take(gpus, count):
        if not waits:
            waits = True
            log.info(
                "of %d GPUs fewer than %d are free of other jobs: waiting (%s=1 does without)",
                len(gpus), count, RESERVED,
            )  # fmt: skip
        time.sleep(POLL)
    names = ", ".join(f"{gpu.name} {gpu.lock}".strip() for gpu in _held)
    waited = f" after {time.monotonic() - started:.0f} s" if waits else ""
    log.info("uses GPU %s%s", names, waited)


def _take(gpus: list[Gpu], count: int) -> bool:
    """Lock the first `count` GPUs that are free, or none."""
    for number, gpu in enumerate(gpus):
        if len(_held) + len(gpus) - number < count:
            break
        if (lock := _lock(gpu)) is not None:
            _held[gpu] = lock
        if len(_held) == count:
            return True
    for lock in _held.values():
        os.close(lock)
    _held.clear()
    return False


def _lock(gpu: Gpu) -> int | None:
    """Return what keeps a GPU locked as long as it is open, or None if another process has it."""
    # A folder and not a file: what clears old files out of /tmp leaves locked folders alone.
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
            f"{error.filename or LOCKS}: cannot be used to tell which GPUs are free "
            f"({error.strerror}). Remove it, or set {RESERVED}=1 to do without."
        ) from error
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened)
        return None
    return opened


def _forget() -> None:
    """Let a forked child not keep a lock that its parent has lost."""
    for lock in _held.values():
        os.close(lock)
    _held.clear()


os.register_at_fork(after_in_child=_forget)
