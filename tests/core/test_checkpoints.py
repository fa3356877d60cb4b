"""States of jobs, the lock on them, and signals that ask a job to end."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mispair.core import files
from mispair.core import resume as checkpoints
from mispair.core.files import replacing_folder
from mispair.core.provenance import PACKAGE

STATE = {"step": np.array(3), "weights": np.arange(4.0)}


def test_a_state_is_of_one_job_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "parts"

    def keep() -> None:
        with pytest.raises(KeyboardInterrupt), checkpoints.checkpoints(folder, "this") as states:
            states.array_keeper("a").save(STATE)
            raise KeyboardInterrupt

    keep()
    assert [path.name for path in folder.iterdir()] == ["a.safetensors"]
    with checkpoints.checkpoints(folder, "another") as states:
        assert states.array_keeper("a").load() is None
        assert states.array_keeper("b").load() is None
    assert "of other settings or code" in caplog.text
    assert not folder.exists()

    keep()
    whole = (folder / "a.safetensors").read_bytes()
    for length in (0, 7, len(whole) // 2, len(whole) - 1):
        (folder / "a.safetensors").write_bytes(whole[:length])
        assert checkpoints.Checkpoints(folder, "this").array_keeper("a").load() is None
    (folder / "a.safetensors").write_bytes(whole)
    with checkpoints.checkpoints(folder, "this") as states:
        found = states.array_keeper("a").load()
        assert found is not None
        assert found.keys() == STATE.keys()
        assert all(np.array_equal(found[name], STATE[name]) for name in STATE)
    assert not folder.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_job_that_is_asked_to_end_keeps_its_state_first(number, tmp_path):
    before = signal.getsignal(number)
    with (
        pytest.raises(checkpoints.Interrupted, match="the same command goes on from there"),
        checkpoints.checkpoints(tmp_path / "parts", "job") as states,
    ):
        keeper = states.array_keeper("a")
        assert keeper.load() is None
        assert not keeper.due()
        keeper.save(STATE)  # and goes on
        os.kill(os.getpid(), number)
        assert keeper.due()
        keeper.save(STATE | {"step": np.array(4)})
        pytest.fail("the job goes on")
    assert signal.getsignal(number) == before
    state = checkpoints.Checkpoints(tmp_path / "parts", "job").array_keeper("a").load()
    assert state is not None
    assert state["step"] == 4


def test_a_state_is_due_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now[0])
    keeper = checkpoints.Checkpoints(tmp_path, "job").array_keeper("a")
    due = []
    for now[0] in (59.0, 61.0):
        due.append(keeper.due())
    keeper.save(STATE)
    for now[0] in (120.0, 122.0):
        due.append(keeper.due())
    assert due == [False, True, False, True]


HOLD = """
import sys
from pathlib import Path
from mispair.core.resume import checkpoints
with checkpoints(Path(sys.argv[1]), "job"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def zombie(tmp_path: Path):
    """Another copy of the job, at work in ``parts``."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-c", HOLD, str(tmp_path / "parts")]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_a_second_copy_of_a_job_ends_and_touches_nothing(zombie, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "WAIT_SECONDS", 0.5)
    state = tmp_path / "parts" / "a.safetensors"
    state.write_bytes(b"of the other")
    with (
        pytest.raises(files.UserError, match="another copy of this job") as refused,
        checkpoints.checkpoints(tmp_path / "parts", "job"),
    ):
        pytest.fail("both are in")
    assert f"(process {zombie.pid} on " in str(refused.value)
    assert state.read_bytes() == b"of the other"
    zombie.communicate(b"")  # it ends in peace, undisturbed
    assert zombie.returncode == 0
    assert not (tmp_path / "parts").exists()


@pytest.mark.parametrize("how", ["ends", "is killed"])
def test_a_second_copy_goes_on_when_the_first_is_gone(how: str, zombie, tmp_path: Path) -> None:
    zombie.kill() if how == "is killed" else zombie.stdin.close()
    with checkpoints.checkpoints(tmp_path / "parts", "job"):
        assert (tmp_path / "parts").is_dir()
    assert not (tmp_path / "parts").exists()


def test_a_file_system_without_locks_is_a_warning(tmp_path, monkeypatch, caplog):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(checkpoints.fcntl, "lockf", refuse)
    with checkpoints.checkpoints(tmp_path / "parts", "job") as states:
        states.array_keeper("a").save(STATE)
    assert "this file system has no locks (No locks available)" in caplog.text
    assert not (tmp_path / "parts").exists()


# What killed jobs leave ------------------------------------------------------------------------

LEAVE = """
import os, signal, sys
from pathlib import Path
from mispair.core.files import replacing
from mispair.core.files import replacing_folder
with replacing(Path("file")) as one, replacing_folder(Path("folder")) as other:
    one.write_text("half")
    (one.parent / ".tmpAbC").write_text("a library's own, as safetensors has it")
    (other / "inner").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_job_left_half_written_goes_with_the_next_write(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    subprocess.run([sys.executable, "-c", LEAVE], cwd=tmp_path, env=environment, check=False)
    assert len(list(tmp_path.iterdir())) == 2
    # What a living process writes is let be.
    theirs = tmp_path / next(tmp_path.glob(".file.*")).name.replace("-", f"-{os.getppid()}-", 1)
    theirs.write_text("half")
    files.write_text(tmp_path / "file", "whole")
    with replacing_folder(tmp_path / "folder") as folder:
        (folder / "inner").write_text("whole")
    assert {path.name for path in tmp_path.iterdir()} == {"file", "folder", theirs.name}


def test_two_copies_that_write_one_folder_leave_a_whole_one(tmp_path: Path) -> None:
    for _ in range(2):
        with replacing_folder(tmp_path / "x") as one, replacing_folder(tmp_path / "x") as other:
            (one / "a").write_text("1")
            (other / "a").write_text("1")
        assert [path.name for path in tmp_path.iterdir()] == ["x"]
        assert (tmp_path / "x" / "a").read_text() == "1"


@pytest.mark.parametrize("writing", [files.replacing, replacing_folder])
def test_a_full_disk_is_one_message(writing, tmp_path: Path) -> None:
    """/dev/full refuses every byte, as a full disk does."""
    with (
        pytest.raises(files.UserError, match="the disk is full"),
        writing(tmp_path / "x"),
        open("/dev/full", "wb", buffering=0) as device,
    ):
        device.write(b"x")
    assert os.listdir(tmp_path) == []
