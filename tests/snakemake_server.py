"""Snakemake for tests: a server imports it once, and forks a process for each command.

A fresh process imports Snakemake and its plugins for more than half of the time of a dry run. A
child of the server is a process of its own, with the folder, environment and output that it is
given. Nothing of mispair is imported before the fork: each child imports the code of its checkout.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile

IMPORTED = (
    "snakemake.cli", "snakemake.report", "pydantic", "jinja2", "requests", "docutils.core", "dpath",
    "PIL.Image",
)  # fmt: skip
"""What Snakemake and a Snakefile of ours import."""
PLUGINS = ("executor", "report", "scheduler", "storage")
"""Kinds of plugins that are found and imported. Ours is a logger, and reads arguments as it is."""


SECONDS = 900
"""How long a command may take."""


class Server:
    """A process that runs commands of Snakemake, one after another."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

        atexit.register(self.close)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def run(self, arguments: list[str], folder: Path, python: Path) -> tuple[int, str]:
        """Run Snakemake in a folder; return its exit code and all that it printed.

        Jobs run with the program `python`.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with NamedTemporaryFile() as printed:
            command = {
                "arguments": arguments,
                "folder": str(folder),
                "python": str(python),
                "environment": dict(os.environ),
                "output": printed.name,
            }
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            return code, printed.read().decode()


@cache
def server() -> Server:
    """Return the server of this process of pytest. It ends with that process."""
    return Server()


def main() -> None:
    """Read commands from standard input, and print the exit code of each."""
    for module in IMPORTED:
        importlib.import_module(module)
    for kind in PLUGINS:
        registry = importlib.import_module(f"snakemake_interface_{kind}_plugins.registry")
        getattr(registry, f"{kind.title()}PluginRegistry")()  # keeps what it finds
    assert not any(name.split(".")[0] == "mispair" for name in sys.modules)
    for line in sys.stdin:
        command = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.alarm(SECONDS)
            _become(command)
            sys.exit(sys.modules["snakemake.cli"].main(command["arguments"]))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(command: dict) -> None:
    """Take on the folder, environment, output and arguments of a command."""
    opened = [os.open(os.devnull, os.O_RDONLY), os.open(command["output"], os.O_WRONLY)]
    for source, target in zip([*opened, opened[1]], (0, 1, 2), strict=True):
        os.dup2(source, target)
    os.environ.clear()
    os.environ.update(command["environment"])
    os.chdir(command["folder"])
    sys.path[0] = command["folder"]  # as of ``python -m snakemake``
    sys.executable = command["python"]
    sys.argv = ["snakemake", *command["arguments"]]


if __name__ == "__main__":
    main()
