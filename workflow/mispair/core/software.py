"""Software of a result: the commit of this checkout, and versions of packages."""

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
"""Packages that a result may depend on."""


@cache
def versions() -> dict[str, str]:
    """Return the versions of mispair, Python and the packages, without importing any.

    They come from the names of pip's folders, which is much quicker than `importlib.metadata`.
    """
    names = {_normal(name): name for name in PACKAGES}
    of_packages: dict[str, str] = {}
    for folder in map(Path, sys.path):
        for entry in os.listdir(folder) if folder.is_dir() else []:
            match = re.fullmatch(r"([^-]+)-([^-]+)\.dist-info", entry)
            if match and (name := names.get(_normal(match[1]))):
                of_packages.setdefault(name, match[2])
    of_mispair = {"mispair": __version__, "python": platform.python_version()}
    return of_mispair | dict(sorted(of_packages.items()))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def commit() -> dict[str, Any] | None:
    """Return the commit of this checkout and whether the package has changed since, or None."""
    status = _git("status", "--porcelain=v2", "--branch", "--", str(PACKAGE))
    match = re.search(r"^# branch\.oid (\w+)$", status or "", re.MULTILINE)
    if status is None or match is None:
        return None
    changed = any(line and not line.startswith("#") for line in status.splitlines())
    return {"commit": match[1], "changed": changed}


def difference() -> str | None:
    """Return the SHA-256 of ``git diff HEAD`` of the whole checkout, or None if it is empty."""
    patch = _git("diff", "HEAD", "--no-ext-diff", "--no-color", "--binary")
    return hashlib.sha256(patch.encode()).hexdigest() if patch else None


def _git(*arguments: str) -> str | None:
    # An installed package may be inside a checkout of something else.
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
