"""Jobs for tests: a server imports torch and its like once, and forks a process for each job.

Most of the time of a tiny job is that its process imports libraries. The folder of a `StepServer`
has a program `python`, which gives the server what it is called with (``-m mispair ...``, folder,
environment, open files), and waits for the job. A job is a process of its own, imports mispair
from its checkout, gets the signals and returns the exit code. The program called with
``-m snakemake`` is Snakemake, whose jobs run with it. The run with kills, the one through SLURM
and what these two leave out of the smoke configuration do without.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from functools import cache
from pathlib import Path

IMPORTED = (
    "altair", "jinja2", "numpy", "open_clip", "pandas", "pyarrow.parquet", "pydantic",
    "safetensors.torch", "scipy.optimize", "scipy.stats", "sklearn.decomposition",
    "sklearn.linear_model", "timm", "tokenizers", "torch", "torchvision", "vl_convert", "yaml",
)  # fmt: skip
FORWARDED = ("SIGINT", "SIGTERM", "SIGUSR1")
CLIENT = """#!{python} -IS
import json, os, signal, socket, sys

if sys.argv[1:3] == ["-m", "snakemake"]:
    code = "import sys; sys.executable = {program!r}; from snakemake.cli import main; main()"
    os.execv({python!r}, [{python!r}, "-c", code, *sys.argv[3:]])
if sys.argv[1:3] != ["-m", "mispair"]:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
job = {{"arguments": sys.argv[3:], "folder": os.getcwd(), "environment": dict(os.environ)}}
socket.send_fds(server, [b"files"], [0, 1, 2])
with server.makefile("rw") as stream:
    stream.write(json.dumps(job) + "\\n")
    stream.flush()
    process = int(stream.readline())
    for name in {forwarded!r}:
        signal.signal(getattr(signal, name), lambda number, frame: os.kill(process, number))
    code = int(stream.readline())
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


class StepServer:
    """A process that runs jobs, several at a time; its program `python` asks for them."""

    def __init__(self) -> None:
        # Not below pytest's folders: the path of a socket has room for about a hundred letters.
        self._folder = tempfile.TemporaryDirectory(prefix="steps-")
        self.python = Path(self._folder.name) / "python"
        address = f"{self._folder.name}/socket"
        facts = {"python": sys.executable, "program": str(self.python), "address": address}
        self.python.write_text(CLIENT.format(**facts, forwarded=FORWARDED))
        self.python.chmod(0o755)
        # It ends when its standard input does, with the process of pytest.
        self._process = subprocess.Popen(
            [sys.executable, __file__, address], stdin=subprocess.PIPE, cwd=self._folder.name
        )
        deadline = time.monotonic() + 120
        while not Path(address).exists():
            assert self._process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        atexit.register(self.close)

    def close(self) -> None:
        """End the process, and remove its folder."""
        self._process.communicate()
        self._folder.cleanup()


@cache
def steps() -> StepServer:
    """Return the server of this process of pytest."""
    return StepServer()


def main(address: str) -> None:
    """Serve until standard input ends."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    for module in IMPORTED:
        importlib.import_module(module)
    assert not any(name.split(".")[0] == "mispair" for name in sys.modules)
    # A thread is not forked. That of pyarrow's allocator is restarted by its own handler of forks.
    threads = {path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")}
    assert threads <= {"python", "jemalloc_bg_thd"}, threads
    gc.freeze()  # or else the collector would copy the pages of all that is imported, in each job
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for jobs
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{address}.new")
    listening.listen(16)
    os.rename(f"{address}.new", address)
    if os.fork() == 0:
        sys.stdin.read()
        os.kill(os.getppid(), signal.SIGTERM)
        os._exit(0)
    while True:
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _serve(connection)
        connection.close()


def _serve(connection: socket.socket) -> None:
    """Start a job, and send its process and its exit code."""
    _, files, _, _ = socket.recv_fds(connection, 5, 3)
    with connection.makefile("rw") as stream:
        job = json.loads(stream.readline())
        process = os.fork()
        if process == 0:
            connection.close()
            _become(job, files)
            _run()
        with contextlib.suppress(BrokenPipeError):
            stream.write(f"{process}\n")
            stream.flush()
            _, status = os.waitpid(process, 0)
            stream.write(f"{os.waitstatus_to_exitcode(status)}\n")
            stream.flush()
    os._exit(0)


def _run() -> None:
    """Run ``python -m mispair`` and end; without what would take apart all that is imported."""
    try:
        runpy.run_module("mispair", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _become(job: dict, files: list[int]) -> None:
    """Take on the folder, environment, open files and arguments of a job."""
    for file, number in zip(files, (0, 1, 2), strict=True):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    paths = job["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [job["folder"], *filter(None, paths)]
    sys.argv = ["mispair", *job["arguments"]]
    sys.orig_argv = [sys.executable, "-m", "mispair", *job["arguments"]]


if __name__ == "__main__":
    main(sys.argv[1])
