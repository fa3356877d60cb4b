"""The command `mispair` itself: its list of steps, and who reads it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def test_steps_of_one_process_run_in_order_until_one_fails(tmp_path: Path, capsys) -> None:
    """Each leaves its own results; what is printed last names the one that failed."""
    listed, first, second = (tmp_path / name for name in ("a.parquet", "first", "second"))
    listed.write_text("a")
    steps = [
        ["list-files", "--files", str(listed), "--listings", str(folder / "parquet.sha256")]
        for folder in (first, second)
    ]
    assert cli.main([*steps[0], "+", *steps[1]]) == 0
    written = (second / "parquet.sha256").read_text()
    assert written == (first / "parquet.sha256").read_text() != ""
    (second / "parquet.sha256").unlink()
    failing = ["measure-purity", "--projection", str(listed), "--purity", str(tmp_path / "p.json")]
    assert cli.main([*steps[0], "+", *failing, "+", *steps[1]]) == 2
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert told.startswith(f"mispair measure-purity: {listed}")
    assert not (second / "parquet.sha256").exists()
