"""A server that imports libraries once: each job of a run on one machine is a fork of it.

The start of a job with towers is mostly the import of PyTorch, two seconds of a core. Snakemake's
process starts the server (`start`), ``python -m mispair`` asks it for a process (`ask`) and runs
the job itself where none answers, and the server ends with Snakemake and its last job. Each job
tells it the modules of mispair that it had to import; the server imports them while nobody asks,
and the libraries with them. It has one thread, as a fork needs, and uses no GPU.

Only on Linux: other systems have libraries that do not survive a fork.
"""

import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mispair.core.forks import ADDRESS, has_one_thread, is_wanted

FORWARDED = (signal.SIGTERM, signal.SIGUSR1)
"""Signals that schedulers send to a job. Ctrl-C reaches all processes of a terminal by itself."""

WIDTH = 4
"""Bytes of a number in messages: a length, a process or an exit status."""
STALLED = 10.0
"""Seconds after which the server no longer waits for what a client asks for."""


# Snakemake's process.


def start() -> None:
    """Start a server for the jobs of this process, which ends with it."""
    import atexit
    import subprocess
    import tempfile

    if not is_wanted():
        return
    address = Path(tempfile.mkdtemp(prefix="mispair-")) / "jobs"  # nobody else may enter it
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(address))
            listening.listen(256)
            server = subprocess.Popen(
                [sys.executable, "-m", __name__, str(listening.fileno())],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=[listening.fileno()],
            )  # fmt: skip
    except OSError:  # the path is too long for a socket, or its disk has none: jobs run alone
        address.parent.rmdir()
        return
    os.environ[ADDRESS] = str(address)
    atexit.register(server.communicate)  # the end of its input ends the server


# The process that Snakemake starts for a job.


def ask(words: Sequence[str]) -> int | None:
    """Run a job in a process of the server; return its exit code, and None without a server."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(os.environ[ADDRESS])
    except OSError:
        return None
    job = {"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}
    message = json.dumps(job).encode()
    try:
        socket.send_fds(connection, [len(message).to_bytes(WIDTH, "big")], [0, 1, 2])
        connection.sendall(message)
        process = _number(connection)
    except OSError:
        return None
    if process is None:
        return None

    def forward(number: int, _: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(process, number)

    for number in FORWARDED:
        signal.signal(number, forward)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    status = _number(connection)
    if status is None:
        print("mispair: the server of this run's jobs was killed, and this job", file=sys.stderr)
        return 1
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    return os.waitstatus_to_exitcode(status)


def _number(connection: socket.socket) -> int | None:
    """Return the next number of a connection, or None at its end."""
    content = connection.recv(WIDTH, socket.MSG_WAITALL)
    return int.from_bytes(content, "big") if len(content) == WIDTH else None


# The server.


class JobServer:
    """A loop that gives each client a process, and tells it how that ended.

    Parameters
    ----------
    listening : socket
        Where clients connect.
    """

    def __init__(self, listening: socket.socket) -> None:
        self.listening, self.began = listening, time.time_ns()
        self.clients: dict[int, socket.socket] = {}
        self.told, self.tell = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.woken, self.wake = socket.socketpair()
        self.wake.setblocking(False)
        self.ready = selectors.DefaultSelector()
        self.modules: list[str] = []
        self.handlers: dict[int, Any] = {
            number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, *FORWARDED)
        }
        self.handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake.fileno())
        for file in (listening, sys.stdin, self.told, self.woken):
            self.ready.register(file, selectors.EVENT_READ)

    def serve(self) -> list[str] | None:
        """Return the words of a job in the process for it, and None at the end of the run."""
        while self.listening.fileno() >= 0 or self.clients:
            events = self.ready.select(timeout=0 if self.modules else None)
            for file in (key.fileobj for key, _ in events):
                if file is self.listening:
                    if (words := self._fork()) is not None:
                        return words
                elif file is self.told:
                    self.modules += json.loads(self.told.recv(2**20))
                elif file is self.woken:
                    self.woken.recv(2**10)
                    self._answer()
                elif file is sys.stdin:  # Snakemake has ended
                    self.ready.unregister(file)
                    self._close()
                else:  # a client was killed
                    for process in [one for one in self.clients if self.clients[one] is file]:
                        os.kill(process, signal.SIGKILL)
            if self.modules and not events:
                self._import(self.modules.pop(0))
        return None

    def _fork(self) -> list[str] | None:
        """Begin the job that a client asks for; return its words in its own process."""
        if self._is_old():
            self._close()
        if self.listening.fileno() < 0:
            return None
        client, _ = self.listening.accept()
        client.settimeout(STALLED)
        files: list[int] = []
        try:
            length, files, _, _ = socket.recv_fds(client, WIDTH, 3)
            with client.makefile("rb") as stream:
                job = json.loads(stream.read(int.from_bytes(length, "big")))
        except (OSError, ValueError):  # the client was killed, or stopped: then it runs its own job
            client.close()
            for file in files:
                os.close(file)
            return None
        server = os.getpid()
        gc.freeze()  # or else the collector would copy the memory of all imports, in each job
        # Blocked signals wait for the job's own handlers; the server ignores them.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, self.handlers)
        if process := os.fork():
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for file in files:
                os.close(file)
            with suppress(OSError):
                client.sendall(process.to_bytes(WIDTH, "big"))
            self.clients[process] = client
            self.ready.register(client, selectors.EVENT_READ)
            return None
        _end_with(server)
        signal.set_wakeup_fd(-1)
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for connection in (client, self.listening, self.told, self.woken, self.wake, self.ready):
            connection.close()
        for connection in self.clients.values():
            connection.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(job["folder"])
        os.environ.clear()
        os.environ.update(job["environment"])
        del os.environ[ADDRESS]
        return list(job["words"])

    def _is_old(self) -> bool:
        """Return whether code has changed that this process has imported: jobs run alone then."""
        modules = [one for name, one in sys.modules.items() if name.startswith("mispair")]
        files = [Path(module.__file__) for module in modules if module.__file__]
        try:
            return any(file.stat().st_mtime_ns > self.began for file in files)
        except OSError:
            return True

    def _answer(self) -> None:
        """Tell the clients of ended processes their exit status."""
        while self.clients:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            client = self.clients.pop(process)
            self.ready.unregister(client)
            with client, suppress(OSError):
                client.sendall(status.to_bytes(WIDTH, "big"))

    def _import(self, module: str) -> None:
        """Import a module for later jobs; stop if that starts a thread, which a fork lacks."""
        with suppress(Exception):  # the jobs that need it will say why
            importlib.import_module(module)
        if not has_one_thread():
            self._close()

    def _close(self) -> None:
        """Take no more jobs; a client that is not answered runs its own."""
        self.modules = []
        if self.listening.fileno() >= 0:
            self.ready.unregister(self.listening)
            self.listening.close()


def _end_with(parent: int) -> None:
    """Let this process be killed with its parent."""
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    """Serve the jobs of a run, and be the process of each."""
    import shutil

    from mispair.command import use_one_thread

    listening = socket.socket(fileno=int(sys.argv[1]))
    folder = Path(listening.getsockname()).parent
    use_one_thread()  # numerical libraries start theirs on import
    from mispair import cli

    server = JobServer(listening)
    words = server.serve()
    if words is None:
        shutil.rmtree(folder, ignore_errors=True)
        return 0
    sys.argv[1:] = words
    before = set(sys.modules)
    code = cli.main()
    new = [name for name in sys.modules if name.startswith("mispair.") and name not in before]
    with suppress(OSError):
        server.tell.send(json.dumps(new).encode())
    _end(code)
    return code


def _end(code: int) -> None:
    """End this process as multiprocessing ends its forks: it need not take its modules apart.

    That takes a second for all that the server has imported.
    """
    import atexit
    import threading

    threading._shutdown()  # type: ignore[attr-defined]  # the threads of pools, and others
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
