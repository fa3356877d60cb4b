"""Which software a result was made with: this checkout's commit, and versions of packages."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from mispair import __version__
from mispair.core.provenance import PACKAGE

CHECKOUT = PACKAGE.parents[1]
PACKAGES = (
    "numpy", "open_clip_torch", "pandas", "pillow", "pyarrow", "safetensors", "scikit-learn",
    "scipy", "timm", "torch", "torchvision", "webdataset",
)  # fmt: skip
"""Those that a result may depend on."""


@cache
def versions() -> dict[str, str]:
    """Return the versions of mispair, Python and the packages, without importing any.

    From the names of the folders that pip leaves: much quicker than `importlib.metadata`, for
    every job asks.
    """
    found_versions: dict[str, str] = {}
    wanted_names = {_normal(name): name for name in PACKAGES}
    for folder in map(Path, sys.path):
        names = os.listdir(folder) if folder.is_dir() else []
        for entry in names:
            if match := re.fullmatch(r"([^-]+)-([^-]+)\.dist-info", entry):
                name = wanted_names.get(_normal(match[1]))
                if name is not None:
                    found_versions.setdefault(name, match[2])
    versions_of_mispair = {"mispair": __version__, "python": platform.python_version()}
    return versions_of_mispair | dict(sorted(found_versions.items()))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def commit() -> dict[str, Any] | None:
    """Return the commit of this checkout and whether the package was changed since, if git knows.

    Only the package counts: other words in README change no result.
    """
    status = _git("status", "--porcelain=v2", "--branch", "--", str(PACKAGE))
    match = re.search(r"^# branch\.oid (\w+)$", status or "", re.MULTILINE)
    if status is None or match is None:
        return None
    changed = any(line and not line.startswith("#") for line in status.splitlines())
    return {"commit": match[1], "changed": changed}


def difference() -> str | None:
    """Return the SHA-256 of what ``git diff HEAD`` says of the whole checkout, if it says any."""
    patch = _git("diff", "HEAD", "--no-ext-diff", "--no-color", "--binary")
    return hashlib.sha256(patch.encode()).hexdigest() if patch else None


def _git(*arguments: str) -> str | None:
    # An installed package may lie inside a checkout of something else.
    if not (CHECKOUT / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(CHECKOUT), *arguments], capture_output=True, text=True, check=False,
            env=os.environ | {"GIT_OPTIONAL_LOCKS": "0"}, errors="surrogateescape", timeout=20,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
