"""When `make` builds the environment again."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


def environment(folder: Path, interpreter: Path) -> None:
    """Write a checkout whose environment is up to date and was made for an interpreter."""
    (folder / "envs").mkdir(parents=True)
    (folder / ".venv/bin").mkdir(parents=True)
    shutil.copy(REPOSITORY / "Makefile", folder)
    for name in ("envs/run.lock", "envs/requirements.lock", "pyproject.toml", "setup.py"):
        (folder / name).touch()
        os.utime(folder / name, (1, 1))
    (folder / ".venv/bin/pip").write_text(f"#!{interpreter}\nimport pip\n")
    (folder / ".venv/set-up").touch()


def planned(folder: Path, target: str = "venv") -> str:
    command = ["make", "--dry-run", target]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_an_environment_that_is_up_to_date_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "a checkout"
    environment(folder, folder / ".venv/bin/python3")
    assert "pip install" not in planned(folder)


@pytest.mark.parametrize("copied", [False, True])
def test_the_environment_of_a_moved_checkout_is_built_again(tmp_path: Path, copied: bool) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    environment(first, first / ".venv/bin/python3")
    if copied:
        shutil.copytree(first, second)
    else:
        first.rename(second)
    assert "-m venv --clear .venv" in planned(second)
    assert "pip install" in planned(second)


def test_a_link_to_an_environment_is_kept(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        environment(folder, first / ".venv/bin/python3")
    shutil.rmtree(second / ".venv")
    (second / ".venv").symlink_to(first / ".venv")
    assert "pip install" not in planned(second)


def test_what_runs_is_installed_without_the_tools_and_tests_add_them(tmp_path: Path) -> None:
    environment(tmp_path, tmp_path / ".venv/bin/python3")
    assert "requirements.lock" not in planned(tmp_path, "demo")
    for target in ("test", "lint", "docs"):
        assert planned(tmp_path, target).count("-r envs/requirements.lock") == 1
    (tmp_path / ".venv/set-up-tools").touch()
    assert "pip install" not in planned(tmp_path, "lint")
    os.utime(tmp_path / "envs/run.lock")
    for target in ("demo", "lint"):
        assert planned(tmp_path, target).count("-r envs/run.lock") == 1
