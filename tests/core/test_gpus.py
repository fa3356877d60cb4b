"""Jobs side by side on a machine with several GPUs: real processes, devices that are made up."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mispair.core import devices
from mispair.core.devices import Gpu
from mispair.core.files import UserError

PACKAGE = Path(devices.__file__).parents[2]
TWO = [Gpu("GPU-aa11", "GPU-aa11", "Card"), Gpu("GPU-bb22", "GPU-bb22", "Card")]
JOB = """
import logging, os, sys, time
from pathlib import Path
from mispair.core import devices
logging.basicConfig(stream=sys.stderr, level=logging.INFO)
devices.LOCKS, devices.POLL = Path({locks!r}), 0.02
devices.on_this_machine = lambda: [devices.Gpu(*gpu) for gpu in {machine!r}]
{body}
"""
HOLD = """
devices.reserve()
print(time.monotonic(), os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
{hold}
print(time.monotonic(), flush=True)
"""


def start(locks: Path, body: str, **environment: str) -> subprocess.Popen[str]:
    code = JOB.format(locks=str(locks), machine=[tuple(gpu) for gpu in TWO], body=body)
    given = {key: value for key, value in os.environ.items() if key != devices.VISIBLE}
    given |= {"PYTHONPATH": str(PACKAGE), **environment}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=given, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def holding(hold: str = "time.sleep(0.3)") -> str:
    return HOLD.format(hold=hold)


def spans(jobs: list[subprocess.Popen[str]]) -> list[tuple[float, float, str]]:
    """Return from when until when each job used which device."""
    found = []
    for job in jobs:
        printed, said = job.communicate(timeout=60)
        assert job.returncode == 0, said
        begin, device, end = printed.split()
        found.append((float(begin), float(end), device))
    return found


def refuse_overlap(used: list[tuple[float, float, str]]) -> None:
    for number, (begin, end, device) in enumerate(used):
        for other_begin, other_end, other in used[number + 1 :]:
            assert device != other or end <= other_begin or other_end <= begin


def test_six_jobs_on_two_gpus_never_share_one_and_use_both(tmp_path: Path) -> None:
    used = spans([start(tmp_path / "locks", holding()) for _ in range(6)])
    refuse_overlap(used)
    assert {device for *_, device in used} == {"GPU-aa11", "GPU-bb22"}


def test_spellings_of_one_device_agree(tmp_path: Path) -> None:
    """By index, by the start of its name, and by itself: the second card is one card."""
    names = ["1", "GPU-bb", "GPU-bb22"]
    used = spans([
        start(tmp_path / "locks", holding(), CUDA_VISIBLE_DEVICES=name) for name in names
    ])  # fmt: skip
    assert [device for *_, device in used] == ["GPU-bb22", "GPU-bb", "GPU-bb22"]
    refuse_overlap([(begin, end, "the second") for begin, end, _ in used])


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert path.exists()


def test_a_killed_job_frees_its_device_and_its_forked_children_do_not_hold_it(tmp_path):
    locks, ready = tmp_path / "locks", tmp_path / "ready"
    hold = (
        f"child = os.fork()\nif child: Path({str(ready)!r}).write_text(str(child))\ntime.sleep(60)"
    )
    only = {"CUDA_VISIBLE_DEVICES": "0"}
    first = start(locks, holding(hold=hold), **only)
    wait_for(ready)
    second = start(locks, holding(hold=""), **only)
    assert second.stderr is not None
    assert "waiting" in second.stderr.readline()
    assert second.poll() is None
    first.kill()
    ((_, _, device),) = spans([second])
    assert device == "GPU-aa11"
    os.kill(int(ready.read_text()), signal.SIGKILL)
    first.communicate(timeout=30)


def test_processes_that_a_holder_starts_use_its_device(tmp_path: Path) -> None:
    inner = JOB.format(
        locks=str(tmp_path / "locks"), machine=[tuple(gpu) for gpu in TWO],
        body="print(devices.reserve())",
    )  # fmt: skip
    body = (
        "import subprocess\n"
        "devices.reserve()\n"
        f"print(subprocess.check_output([sys.executable, '-c', {inner!r}], text=True))"
    )
    printed, said = start(tmp_path / "locks", body).communicate(timeout=60)
    assert printed.split() == ["GPU-aa11"], said


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(devices, "on_this_machine", lambda: TWO)
    monkeypatch.setattr(devices, "LOCKS", tmp_path / "locks")
    for name in (devices.VISIBLE, devices.RESERVED):
        monkeypatch.delenv(name, raising=False)
    yield
    devices.release()


@pytest.mark.parametrize(("visible", "entries"), [
    (None, ["GPU-aa11", "GPU-bb22"]),
    ("1,0", ["GPU-bb22", "GPU-aa11"]),  # by UUID: CUDA may count in another order
    ("GPU-b", ["GPU-b"]),
    ("GPU-", []),  # names two
    ("0,7,1", ["GPU-aa11"]),  # CUDA ends at what it does not know
    ("", []),
    ("-1", []),
    ("NoDevFiles", []),
    ("MIG-5c89852c", ["MIG-5c89852c"]),
])  # fmt: skip
def test_devices_are_those_that_cuda_would_see(monkeypatch, two, visible, entries) -> None:
    if visible is not None:
        monkeypatch.setenv(devices.VISIBLE, visible)
    assert [gpu.entry for gpu in devices.usable()] == entries


def test_a_second_call_takes_no_second_device(two) -> None:
    assert devices.reserve() == devices.reserve() == "GPU-aa11"
    assert os.environ[devices.VISIBLE] == "GPU-aa11"
    devices.release()
    assert devices.VISIBLE not in os.environ
    assert devices.reserve() == "GPU-aa11"


def test_without_gpus_nothing_is_locked(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(devices, "on_this_machine", list)
    monkeypatch.setattr(devices, "LOCKS", tmp_path / "locks")
    monkeypatch.setenv(devices.VISIBLE, "0,1")
    assert devices.reserve() is None
    assert not (tmp_path / "locks").exists()


@pytest.mark.parametrize("trap", ["a file", "a link", "another user's"])
def test_a_folder_that_is_not_ours_is_not_used(monkeypatch, tmp_path, two, trap) -> None:
    locks = tmp_path / "locks"
    if trap == "a file":
        locks.write_text("")
    elif trap == "a link":
        (tmp_path / "elsewhere").mkdir()
        locks.symlink_to(tmp_path / "elsewhere")
    else:
        locks.mkdir()
        monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(UserError, match="MISPAIR_GPUS_RESERVED=1"):
        devices.reserve()


def test_nvidia_smi_is_read(monkeypatch, tmp_path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\n"
        "echo 'GPU 0: NVIDIA H200 (UUID: GPU-c5c1-77)'\n"
        "echo '  MIG 1g.18gb     Device  0: (UUID: MIG-1f2e)'\n"
        "echo 'GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-0a0b-12)'\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert devices.on_this_machine() == [
        Gpu("GPU-c5c1-77", "GPU-c5c1-77", "NVIDIA H200"),
        Gpu("GPU-0a0b-12", "GPU-0a0b-12", "NVIDIA A100-SXM4-80GB"),
    ]
