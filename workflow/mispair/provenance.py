"""What a result was made from: the code of its step, and fingerprints of its data."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent


def fingerprint(parts: Iterable[str | bytes]) -> str:
    """Return 16 hexadecimal digits that change when any part, or their order, changes."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:16]


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with Path(path).open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def code_version(step: str) -> list[str]:
    """Return one ``"module digest"`` string for each module that a step imports, directly or not.

    Given to Snakemake as params, they rerun exactly the steps whose code changed. The digest is
    taken over the syntax tree without docstrings, so a comment, a docstring or a line break
    changes nothing, and neither does a checkout or a moved folder.
    """
    return [f"{module} {digest}" for module, digest in _closure(f"mispair.steps.{step}")]


def _closure(root: str) -> list[tuple[str, str]]:
    seen: set[str] = set()
    waiting = [root]
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting.extend(_imports(module))
    return [(module, _digest(module)) for module in sorted(seen)]


def _source(module: str) -> Path | None:
    base = PACKAGE.joinpath(*module.split(".")[1:])
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


@cache
def _tree(module: str) -> ast.Module:
    path = _source(module)
    assert path is not None, module
    tree = ast.parse(path.read_text(encoding="utf-8"))
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


@cache
def _digest(module: str) -> str:
    return hashlib.sha256(ast.dump(_tree(module)).encode()).hexdigest()[:10]


@cache
def _imports(module: str) -> tuple[str, ...]:
    """Return the modules of this package that a module imports anywhere in its text."""
    found: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        # The package itself holds the version number only: a release reruns nothing.
        found.update(
            name for name in names if name.startswith(f"{PACKAGE.name}.") and _source(name)
        )
    return tuple(sorted(found))
