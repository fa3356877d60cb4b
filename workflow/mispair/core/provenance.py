"""Provenance of a result: digests, the code of its step, versions of software."""

import ast
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from mispair import __version__

PACKAGE = Path(__file__).parents[1]

SNAKEMAKE = Path(".snakemake")
"""Snakemake's own folder in the one that it runs in."""


def fingerprint(parts: Iterable[str | bytes]) -> str:
    """Return 16 hexadecimal digits that change when any part, or their order, changes."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:16]


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with Path(path).open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


SAMPLE = 65_536


def sampled_digest(path: Path) -> str:
    """Return the SHA-256 of the first, the middle and the last 64 kB of a file."""
    digest, size = hashlib.sha256(), Path(path).stat().st_size
    with Path(path).open("rb") as opened:
        for start in (0, max(0, (size - SAMPLE) // 2), max(0, size - SAMPLE)):
            opened.seek(start)
            digest.update(opened.read(SAMPLE))
    return digest.hexdigest()


def step_module_name(step: str) -> str:
    """Return the dotted name of the module of a step: ``PACKAGE.steps.STEP``."""
    (path,) = PACKAGE.glob(f"*/steps/{step}.py")
    return f"mispair.{path.parts[-3]}.steps.{step}"


def code_version(step: str, *modules: str) -> list[str]:
    """Return one ``"module digest"`` string for each module that a step imports, directly or not.

    `modules` are further ones that it imports by name. Snakemake compares the strings as params,
    and reruns exactly the steps whose code changed. The digest is that of the syntax tree without
    docstrings: comments, docstrings, line breaks and the folder of the checkout change nothing.
    """
    return [f"{module} {digest}" for module, digest in _closure(step_module_name(step), *modules)]


def _closure(*roots: str) -> list[tuple[str, str]]:
    digests: dict[str, str] = {}
    waiting = [*roots]
    while waiting:
        module = waiting.pop()
        if module not in digests:
            digests[module], names = _facts(module)
            # The package itself holds the version number only: a release reruns nothing.
            waiting += [name for one in names for name in _modules(one) if _source(name)]
    _remember()
    return sorted(digests.items())


def _modules(name: str) -> list[str]:
    """Return a module's name; all modules of a package that is imported whole (``name.*``)."""
    package = name.removesuffix(".*")
    if package == name:
        return [name]
    folder = PACKAGE.joinpath(*package.split(".")[1:])
    return [package, *(f"{package}.{path.stem}" for path in sorted(folder.glob("[a-z]*.py")))]


@cache
def _source(module: str) -> Path | None:
    base = PACKAGE.joinpath(*module.split(".")[1:])
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


Facts = tuple[str, tuple[str, ...]]
"""Digest of a module without docstrings, and the names in this package that it imports."""

COMPILED = PACKAGE / "__pycache__"
"""Python's compiled files, and what else is slow to make and depends on the installation alone."""

MEMORY = COMPILED / f"code-versions.{sys.implementation.cache_tag}.json"
"""Facts by the SHA-256 of a module's text: parsing 150 modules takes a second of each run."""

_new: dict[str, Facts] = {}


@cache
def _facts(module: str) -> Facts:
    path = _source(module)
    assert path is not None, module
    text = path.read_bytes()
    key = hashlib.sha256(text).hexdigest()
    remembered = _known().get(key)
    if remembered is None:
        tree = _without_words(ast.parse(text))
        digest = hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:10]
        remembered = _new[key] = digest, _imports(tree)
    return remembered


@cache
def _known() -> dict[str, Facts]:
    try:
        facts = json.loads(MEMORY.read_text(encoding="utf-8"))
        return {key: (digest, tuple(names)) for key, (digest, names) in facts.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}  # missing or broken: it is written again


def _remember() -> None:
    """Store new facts next to Python's compiled files, if these may be written."""
    if _new:
        _known().update(_new)
        _new.clear()
        keep_compiled(MEMORY, json.dumps(_known()))


def keep_compiled(path: Path, text: str) -> None:
    """Write a file of `COMPILED`, or nothing if Python's compiled files may not be written."""
    if sys.dont_write_bytecode:
        return
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _without_words(tree: ast.Module) -> ast.Module:
    """Remove the docstrings from a syntax tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
    return tree


def _imports(tree: ast.Module) -> tuple[str, ...]:
    """Return the names in this package that a module imports anywhere in its text."""
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            # ``import mispair.a.b`` of a package stands for all of its modules.
            names = [f"{alias.name}.*" for alias in node.names if "." in alias.name]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        modules.update(name for name in names if name.startswith(f"{PACKAGE.name}."))
    return tuple(sorted(modules))


# Software of a result: the commit of this checkout, and versions of packages.

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
    """Return the commit of this checkout and whether the package has changed since, or None.

    That of an installed package was written when it was built.
    """
    with suppress(OSError):
        built: dict[str, Any] = json.loads((PACKAGE / "workflow_files/commit.json").read_bytes())
        return built
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
