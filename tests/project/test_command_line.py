"""The command `mispair` itself: its list of steps, and who reads it."""

from __future__ import annotations

import subprocess
import sys

from mispair import __version__, cli
from mispair.core.registry import step_names


def test_the_list_of_commands_names_every_step(capsys) -> None:
    assert cli.main([]) == cli.main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert [name for name in step_names() if name.replace("_", "-") not in printed] == []
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


def test_a_reader_who_has_enough_is_no_fault() -> None:
    command = [sys.executable, "-m", "mispair", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, told = process.communicate()
    assert process.returncode == cli.CLOSED_PIPE
    assert told == b""
