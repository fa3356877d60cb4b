"""Provenance of a result: code of its step, versions of software, digests and lists of its data."""

import ast
import hashlib
import json
import logging
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from mispair import __version__
from mispair.core import files
from mispair.core.files import UserError, write_text

PACKAGE = Path(__file__).parents[1]


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


# Stamps of a user's own files: short texts that change when the content does.
#
# Snakemake compares times, and a file that was copied or moved over another keeps its time
# (``cp -p``, ``mv``, ``rsync -a``, ``tar -x``). Digests of all shards at each start would take
# hours. So a step stores the digest of a file that it reads, and a file is read again only when its
# size, times or inode differ from the stored ones.

log = logging.getLogger(__name__)

MADE = "results/"
"""Folder of files that rules write: Snakemake tracks their changes."""
SNAKEMAKE = Path(".snakemake")
DIGESTS = SNAKEMAKE / "mispair" / "digests"
"""Folder with a file for each large file of the user."""
SMALL = 65_536
"""Files of up to this many bytes are digested at each start."""

Entry = dict[str, Any]
"""``state`` and ``sha256`` of a file, and ``first``: its first digest, and the stamp then.

An entry of many files has in ``state`` those of each, with its digest at the end."""


def stamp(paths: Iterable[str]) -> str:
    """Return 16 hexadecimal digits that change when the content of any of a user's files does."""
    return fingerprint(_content(path) for path in paths if not path.startswith(MADE))


def stamp_of_many(name: str, paths: Iterable[str]) -> str:
    """Return a text that changes when the content of any of many small files of the user does.

    They have one entry together, under `name`, which `remember_many` writes.
    """
    paths = [*paths]
    entry = _remembered(Path(name))
    if not entry:
        return fingerprint(_state_at_first(path) for path in paths)
    digest, first = _of_many(Path(name), paths, entry)["sha256"], entry["first"]
    return str(first[1] if digest == first[0] else digest)


def remember_many(name: str, paths: Iterable[str], read: Mapping[str, list[Any]]) -> None:
    """Store the digests of many small files of the user; `read` has those that are known."""
    if SNAKEMAKE.is_dir():
        _of_many(Path(name), [*paths], _remembered(Path(name)), read)


def state_of(status: os.stat_result, content: bytes) -> list[Any]:
    """Return size, times, inode and digest of a file, given its content."""
    return [*file_state(status), hashlib.sha256(content).hexdigest()]


def _of_many(
    name: Path, paths: list[str], entry: Entry, read: Mapping[str, list[Any]] | None = None
) -> Entry:
    """Return the current entry of many files; only those are read whose state has changed."""
    former, read = entry.get("state", {}), read or {}
    # The name of a file may be no UTF-8, which JSON could not hold.
    states = {
        repr(path): read.get(path) or _state_and_digest(path, former.get(repr(path)))
        for path in paths
    }
    if states == former:
        return entry
    if any(states[path][:-1] != former[path][:-1] for path in states.keys() & former.keys()):
        _announce()
    digest = fingerprint(part for path, state in states.items() for part in (path, state[-1]))
    first = [digest, fingerprint(_state_at_first(path) for path in paths)]
    entry = {"state": states, "sha256": digest, "first": entry.get("first", first)}
    _store(name, entry)
    return entry


def _state_and_digest(path: str, former: list[Any] | None) -> list[Any]:
    """Return size, times, inode and digest of a file; a file that cannot be read has none."""
    try:
        state = file_state(os.stat(path))
        if former is not None and former[:-1] == state:
            return former
        if state[0] > SMALL:
            return [*state, file_digest(Path(path))]
        with open(path, "rb", buffering=0) as opened:
            return [*state, hashlib.sha256(opened.read()).hexdigest()]
    except OSError:
        return [""]


def _state_at_first(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return repr(path)
    return f"{path!r} {status.st_size} {status.st_mtime_ns}"


def file_state(status: os.stat_result) -> list[int]:
    """Return size, times and inode of a file; another file in its place differs in one of them."""
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def remember(path: Path) -> None:
    """Store the digest of a large file of the user that a step is about to read."""
    is_result = not path.is_absolute() and MADE.rstrip("/") in path.parts  # a module has a prefix
    if is_result or not SNAKEMAKE.is_dir() or not path.is_file():
        return
    if path.stat().st_size > SMALL:
        _updated(path, _remembered(path))


@cache
def _content(name: str) -> str:
    path = Path(name)
    if not path.is_file():
        return ""  # Snakemake reports that it is missing
    if path.stat().st_size <= SMALL:
        return file_digest(path)
    entry = _remembered(path)
    if not entry:
        return _first_stamp(path)
    digest, first = _updated(path, entry)["sha256"], entry["first"]
    return str(first[1] if digest == first[0] else digest)


def _updated(path: Path, entry: Entry) -> Entry:
    """Return the current entry of a file; the file is read only if its state has changed."""
    state = file_state(path.stat())
    if entry.get("state") == state:
        return entry
    if entry:
        _announce()
    digest = file_digest(path)
    entry = {
        "state": state,
        "sha256": digest,
        "first": entry.get("first", [digest, _first_stamp(path)]),
    }
    _store(path, entry)
    return entry


def _store(path: Path, entry: Entry) -> None:
    try:
        files.write_json(_entry_file(path), entry)
    except (OSError, files.UserError) as error:
        log.warning("%s: its digest could not be stored: %s", path, error)


def _first_stamp(path: Path) -> str:
    """Return the stamp of a file that no step has read, without its machine-dependent inode."""
    status = path.stat()
    return fingerprint([str(status.st_size), str(status.st_mtime_ns)])


def _remembered(path: Path) -> Entry:
    try:
        entry: Entry = json.loads(_entry_file(path).read_text(encoding="utf-8"))
        return entry if entry.keys() == {"state", "sha256", "first"} else {}
    except (OSError, ValueError, AttributeError):
        return {}


def _entry_file(path: Path) -> Path:
    return DIGESTS / f"{fingerprint([path.as_posix()])}.json"


@cache
def _announce() -> None:
    log.warning("Times of large input files changed; their contents are read and compared.")


# Listings of results in the form of ``sha256sum``: digests, and names relative to the listing.
#
# A job that reads thousands of files has their listing as its input, so that Snakemake checks one
# file instead of thousands. The listing changes when the content of any of the files does.

LISTING, MARK = ".sha256", "@"
"""Suffix of a listing, and the prefix of its name on the command line of a step."""


def write_listing(listing: Path, files: Iterable[Path]) -> None:
    """Write the SHA-256 and the name of each file, in the given order."""
    lines = [f"{file_digest(file)}  {os.path.relpath(file, listing.parent)}\n" for file in files]
    write_text(listing, "".join(lines))


def of_ending(files: Iterable[Path], listing: Path) -> list[Path]:
    """Return the files that a listing is for: ``parquet.sha256`` lists each ``NAME.parquet``."""
    return [file for file in files if file.name.partition(".")[2] == listing.stem]


def files_of(listing: Path) -> list[Path]:
    """Return the files of a listing, in its order.

    Raises
    ------
    UserError
        If the listing cannot be read, or one of its files is missing.
    """
    try:
        lines = listing.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{listing}: cannot be read as a listing of files ({error}).") from error
    files = [listing.parent / line.partition("  ")[2] for line in lines]
    if missing := [file for file in files if not file.is_file()]:
        raise UserError(
            f"{listing}: {len(missing)} of its {len(files)} files are missing, the first is "
            f"{missing[0]}. Delete the listing and run again: Snakemake writes the files once more."
        )
    return files


def listing_of(path: object) -> Path | None:
    """Return the listing that an argument of a step names as ``@listing``, or None."""
    is_listing = isinstance(path, Path) and str(path).startswith(MARK)
    return Path(str(path).removeprefix(MARK)) if is_listing else None


def expanded(paths: Iterable[Path]) -> list[Path]:
    """Replace each ``@listing`` among paths by its files."""
    files: list[Path] = []
    for path in paths:
        listing = listing_of(path)
        files += files_of(listing) if listing else [path]
    return files
