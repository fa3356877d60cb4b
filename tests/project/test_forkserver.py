"""The server of jobs: what a job does in a process of it is what it does in its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mispair import forkserver
from mispair.core.provenance import PACKAGE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the server is for Linux")

STARTS = """
import subprocess, sys
from mispair import forkserver
forkserver.start()
import os
print(os.environ[forkserver.ADDRESS], flush=True)
sys.stdin.read()
"""
"""What Snakemake's process does; it ends with its input."""


def heed_ctrl_c() -> None:
    """Make a process one of a terminal: in the background shells let it ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Run:
    """A run with a server, without Snakemake."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
        self.snakemake = subprocess.Popen(
            [sys.executable, "-c", STARTS], cwd=folder, env=self.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=heed_ctrl_c,
        )  # fmt: skip
        self.address = self.snakemake.stdout.readline().strip()
        (self.server,) = children(self.snakemake.pid)

    def job(self, *words: str, served: bool = True, **options) -> subprocess.Popen[str]:
        """Start a job, by the server or in its own process."""
        more = {forkserver.ADDRESS: self.address} if served else {}
        return subprocess.Popen(
            [sys.executable, "-m", "mispair", *words], cwd=self.folder, text=True,
            env=self.environment | more, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            pipesize=4096, **options,
        )  # fmt: skip

    def stuck(self) -> tuple[subprocess.Popen[str], int]:
        """Start a job whose output nobody reads; return it and the process of its work."""
        job = self.job("reference")
        work = until(lambda: children(self.server))[0]
        until(lambda: state(work) == "S")
        time.sleep(0.1)
        return job, work


def children(process: int) -> list[int]:
    try:
        return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]
    except FileNotFoundError:
        return []


def state(process: int) -> str:
    """Return the letter of a process's state; Z and nothing for one that has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def ends(process: int) -> bool:
    return until(lambda: state(process) in ("", "Z"))


def until(found: Callable[[], object], seconds: float = 20.0, pause: float = 0.02):
    limit = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < limit, "it takes too long"
        time.sleep(pause)
    return value


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    yield run
    run.snakemake.communicate()
    assert not Path(run.address).parent.exists()
    assert ends(run.server)


@pytest.mark.parametrize(
    "words", [["--version"], ["schema"], ["no-such-step"], ["list-files", "--nothing"], []]
)
def test_a_job_prints_and_returns_what_it_would_without_a_server(run: Run, words: list[str]):
    served, own = run.job(*words), run.job(*words, served=False)
    assert (*served.communicate(), served.returncode) == (*own.communicate(), own.returncode)


def test_a_job_has_the_folder_and_environment_of_its_client(run: Run, tmp_path: Path):
    (tmp_path / "sub").mkdir()
    of_the_job = {"OF_THE_JOB": "\udcff é\n"} | {f"LONG_{n}": "x" * 100_000 for n in range(9)}
    environment = run.environment | of_the_job | {forkserver.ADDRESS: run.address}
    job, work = run.stuck()
    other = subprocess.Popen(
        [sys.executable, "-m", "mispair", "reference"], cwd=tmp_path / "sub", env=environment,
        stdout=subprocess.PIPE, pipesize=4096,
    )  # fmt: skip
    second = until(lambda: {*children(run.server)} - {work}).pop()
    until(lambda: Path(f"/proc/{second}/cwd").readlink() == tmp_path / "sub")
    assert children(other.pid) == []
    assert Path(f"/proc/{work}/cwd").readlink() == tmp_path
    for one in (job, other):
        one.communicate()
        assert one.returncode == 0


@pytest.mark.parametrize("sent", [b"", b"\x00\x00\x00\x09", b"\x00\x00\x00\x02{]"])
def test_what_is_no_request_is_left_and_the_next_job_runs(run: Run, sent: bytes):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(run.address)
        socket.send_fds(client, [sent], [0, 1, 2])
        client.shutdown(socket.SHUT_WR)
        assert client.recv(4) == b""
    job = run.job("--version")
    assert job.communicate()[0]
    assert not children(run.server)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_a_job_reaches_its_work_and_is_how_it_ends(run: Run, number: signal.Signals):
    """Also a signal to a job that has just begun."""
    for attempt in range(10):
        job = run.job("reference")
        work = until(lambda: children(run.server), pause=0.0)[0]
        if attempt == 0:
            until(lambda work=work: state(work) == "S")
        job.send_signal(number)
        job.communicate()
        assert job.returncode == -number
        assert ends(work)


def test_the_work_of_a_killed_job_ends_and_the_next_job_runs(run: Run):
    job, work = run.stuck()
    job.kill()
    job.communicate()
    assert ends(work)
    after = run.job("--version")
    after.communicate()
    assert after.returncode == 0


def test_jobs_of_a_killed_server_fail_and_later_ones_run_by_themselves(run: Run):
    job, work = run.stuck()
    os.kill(run.server, signal.SIGKILL)
    _, message = job.communicate()
    assert (job.returncode, len(message.splitlines())) == (1, 1)
    assert ends(work)
    after = run.job("--version")
    assert after.communicate()[0]
    assert after.returncode == 0
    Path(run.address).unlink()
    Path(run.address).parent.rmdir()


def test_ctrl_c_interrupts_the_work_once_and_not_the_server(tmp_path: Path):
    run = Run(tmp_path)
    # Processes of a terminal get Ctrl-C together: here the job's, in a group of its own.
    job = run.job("reference", preexec_fn=os.setpgrp)
    (work,) = until(lambda: children(run.server))
    until(lambda: state(work) == "S")
    os.killpg(job.pid, signal.SIGINT)
    time.sleep(0.2)
    assert job.poll() is None  # it waits for its work
    os.kill(work, signal.SIGINT)
    job.communicate()
    assert job.returncode == 130
    os.kill(run.server, signal.SIGINT)
    assert run.job("--version").communicate()[0]
    run.snakemake.communicate()


def test_a_run_that_is_killed_leaves_its_jobs_to_end_and_no_server(run: Run):
    job, work = run.stuck()
    run.snakemake.kill()
    run.snakemake.wait()
    time.sleep(0.2)
    assert state(work) == "S"
    assert state(run.server) == "S"
    assert job.communicate()[0]
    assert job.returncode == 0
    assert ends(run.server)


def test_what_a_job_imported_is_there_for_the_next(run: Run):
    maps = Path(f"/proc/{run.server}/maps")
    assert "/pyarrow/" not in maps.read_text()
    missing = ["--parts", "none.parquet", "--recaptions", "a", "--texts", "b"]
    run.job("gather-recaptions", *missing).communicate()
    until(lambda: "/pyarrow/" in maps.read_text())
    assert run.job("--version").communicate()[0]


UNFIT = """
import os, socket, sys, time
from mispair.forkserver import JobServer
listening = socket.socket(socket.AF_UNIX)
listening.bind("jobs")
listening.listen()
server = JobServer(listening)
server._import("harmless")
assert listening.fileno() >= 0
server._import("missing")
server._import("broken")
assert listening.fileno() >= 0
import mispair
mispair.__path__.append(".")
server._import("mispair.harmless")
assert not server._is_old()
os.utime("harmless.py", times=(time.time() + 5, time.time() + 5))
assert server._is_old()
server._import("threaded")
assert listening.fileno() < 0
assert server.serve() is None
"""


def test_a_server_with_a_thread_or_old_code_takes_no_more_jobs(tmp_path: Path):
    (tmp_path / "harmless.py").write_text("a = 1\n")
    (tmp_path / "broken.py").write_text("a = 1 / 0\n")
    (tmp_path / "threaded.py").write_text(
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    path = os.pathsep.join([str(PACKAGE.parent), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-c", UNFIT], cwd=tmp_path, env=os.environ | {"PYTHONPATH": path},
        input="", text=True, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_without_a_place_for_its_socket_there_is_no_server(tmp_path: Path):
    place = tmp_path / ("a" * 120)  # the path of a socket has room for about a hundred letters
    place.mkdir()
    code = "import os; from mispair.forkserver import *; start(); print(ADDRESS in os.environ)"
    done = subprocess.run(
        [sys.executable, "-c", code], text=True, capture_output=True, check=True,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent), "TMPDIR": str(place)},
    )  # fmt: skip
    assert done.stdout.strip() == "False"
    assert not [*place.iterdir()]
