"""Processes for tests: servers import libraries once, and fork a process for each command.

Most of the time of a dry run or of a tiny job is that its process imports libraries. `python()` is
a program that takes the place of Python with ``-m snakemake ...`` and ``-m mispair ...``: it gives
a server what it is called with (arguments, folder, environment, open files), and waits. What the
server forks is a process of its own, imports mispair from its checkout, gets the signals and
returns the exit code. The server of a run (`mispair.forkserver`) is forked, too, and its jobs
are those that it forks. The run with kills does without, as do SLURM's jobs of the steps that a
fault meets.
"""

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
import threading
import time
import traceback
from functools import cache
from pathlib import Path

IMPORTED = {
    "snakemake": (
        "snakemake.cli", "snakemake.report", "pydantic", "jinja2", "requests", "docutils.core",
        "dpath", "PIL.Image",
    ),
    "mispair": (
        "altair", "jinja2", "numpy", "open_clip", "pandas", "pyarrow.dataset", "pyarrow.parquet",
        "pydantic.main", "pydantic.types", "safetensors.numpy", "safetensors.torch",
        "scipy.optimize", "scipy.stats", "sklearn.decomposition", "sklearn.linear_model", "timm",
        "tokenizers", "torch", "torchvision", "vl_convert", "yaml",
    ),
}  # fmt: skip
"""What each server imports: Snakemake with a Snakefile of ours, and the steps. Pydantic alone would
import its parts in each fork, on their first use."""
PLUGINS = ("executor", "report", "scheduler", "storage")
"""Kinds of plugins of Snakemake. Ours is a logger, and reads arguments as it is imported."""
FORWARDED = ("SIGINT", "SIGTERM", "SIGUSR1")
CLIENT = """
import json, os, signal, socket, sys

words, real = sys.argv[1:], facts["real"]
module = words[1] if words[:1] == ["-m"] else ""
names = words[2:3]
files = [0, 1, 2]
if module == "mispair.forkserver" and real is not None:
    module, files = "mispair", [*files, int(words[2])]
elif module == "mispair" and os.path.exists(os.environ.get(facts["server"], "")):
    module = ""
if module == "snakemake":
    jobs = words[words.index("--target-jobs") + 1 :] if "--target-jobs" in words else []
    names = ["snakemake", *(job.partition(":")[0].replace("_", "-") for job in jobs)]
elif module == "mispair" and names == ["plan"]:
    module = "snakemake"
elif real is None:
    module = ""
address = facts["addresses"].get(module)
if address is None or set(real or ()) & set(names):
    if names[:1] == ["snakemake"]:
        start = "from snakemake.cli import main; main()"
        words = ["-c", f"import sys; sys.executable = {facts['steps']!r}; {start}", *words[2:]]
    os.execv(facts["python"], [facts["python"], *words])
server = socket.socket(socket.AF_UNIX)
server.connect(address)
job = {"module": words[1], "arguments": words[2:], "folder": os.getcwd(),
       "environment": dict(os.environ)}
job["python"] = facts["steps"] if words[1] == "snakemake" else facts["python"]
socket.send_fds(server, [b"files"], files)
for file in files[3:]:
    os.close(file)
with server.makefile("rw") as stream:
    stream.write(json.dumps(job) + "\\n")
    stream.flush()
    process = int(stream.readline())
    for name in facts["forwarded"]:
        signal.signal(getattr(signal, name), lambda number, frame: os.kill(process, number))
    code = int(stream.readline())
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@cache
def python(real: tuple[str, ...] | None = ()) -> Path:
    """Return a program that takes the place of Python.

    Parameters
    ----------
    real : tuple of str or None
        Steps that are no forks but processes as a user's are, with the jobs of SLURM that run
        them; "snakemake" is Snakemake itself. None: all steps.
    """
    from mispair.core.forks import ADDRESS  # the servers import mispair from other checkouts

    folder = Path(tempfile.mkdtemp(dir=_folder()))
    program = folder / "python"  # a rule calls it by this name
    modules = IMPORTED if real is not None else ("snakemake",)
    facts = {
        "addresses": {module: _address(module) for module in modules},
        "real": real,
        "python": sys.executable,
        "steps": str(program) if real is not None else sys.executable,
        "forwarded": FORWARDED,
        "server": ADDRESS,
    }
    program.write_text(f"#!{sys.executable} -IS\nfacts = {facts!r}\n{CLIENT}")
    program.chmod(0o755)
    return program


@cache
def _folder() -> str:
    # Not below pytest's folders: the path of a socket has room for about a hundred letters.
    folder = tempfile.TemporaryDirectory(prefix="forks-")
    atexit.register(folder.cleanup)
    return folder.name


@cache
def _address(module: str) -> str:
    """Start the server of a module, which ends with this process, and return its address."""
    address = f"{_folder()}/{module}"
    # It ends when its standard input does, so also if this process is killed.
    process = subprocess.Popen(
        [sys.executable, __file__, module, address], stdin=subprocess.PIPE, cwd=_folder()
    )
    atexit.register(process.kill)  # nothing may keep this process from its end
    deadline = time.monotonic() + 120
    while not Path(address).exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return address


def main(module: str, address: str) -> None:
    """Serve until standard input ends."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    for name in IMPORTED[module]:
        importlib.import_module(name)
    if module == "snakemake":
        for kind in PLUGINS:
            registry = importlib.import_module(f"snakemake_interface_{kind}_plugins.registry")
            getattr(registry, f"{kind.title()}PluginRegistry")()  # keeps what it finds
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
    server = os.getpid()
    if os.fork() == 0:
        sys.stdin.read()
        if os.getppid() == server:
            os.kill(server, signal.SIGTERM)
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
    _, files, _, _ = socket.recv_fds(connection, 5, 4)
    with connection.makefile("rw") as stream:
        job = json.loads(stream.readline())
        process = os.fork()
        if process == 0:
            connection.close()
            _become(job, files)
            _run(job["module"])
        with contextlib.suppress(BrokenPipeError):
            stream.write(f"{process}\n")
            stream.flush()
            _, status = os.waitpid(process, 0)
            stream.write(f"{os.waitstatus_to_exitcode(status)}\n")
            stream.flush()
    os._exit(0)


def _run(module: str) -> None:
    """Run a module and end; without what would take apart all that is imported."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if ended.code is not None and code is not ended.code:
            print(ended.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _become(job: dict, files: list[int]) -> None:
    """Take on the folder, environment, open files and arguments of a job."""
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
        os.close(file)
    job["arguments"][:1] = [*map(str, files[3:])] or job["arguments"][:1]  # of the server of a run
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    paths = job["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [job["folder"], *filter(None, paths)]
    words = ["-m", job["module"], *job["arguments"]]
    sys.executable, sys.argv, sys.orig_argv = job["python"], words[1:], [sys.executable, *words]


if __name__ == "__main__":
    main(*sys.argv[1:])
