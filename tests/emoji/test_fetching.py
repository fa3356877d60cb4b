"""Fetching with npm and pip, replaced by programs that write files; no network."""

import hashlib
import os
import sys
from pathlib import Path

import pytest

from mispair.core.files import UserError
from mispair.emoji import packages
from mispair.emoji.packages import PACKAGES, Package

CONTENT = b"an archive"


def package(registry: str, content: bytes = CONTENT) -> dict[str, Package]:
    digest = hashlib.sha256(content).hexdigest()
    return {"a": Package(registry, "a-thing", "1.0", "a-thing-1.0.tgz", digest, "MIT", "us")}  # type: ignore[arg-type]


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program npm on the path that notes its calls and writes an archive."""
    folder = tmp_path / "bin"
    folder.mkdir()
    calls = tmp_path / "calls"
    script = f'#!/bin/sh\necho "$@" >> {calls}\nprintf "an archive" > a-thing-1.0.tgz\n'
    (folder / "npm").write_text(script)
    (folder / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return calls


def test_what_is_there_is_not_fetched_again(npm: Path, tmp_path: Path) -> None:
    for _ in range(2):
        packages.fetch(tmp_path / "packages", package("npm"))
    assert npm.read_text() == "pack --silent --ignore-scripts a-thing@1.0\n"
    assert [path.name for path in (tmp_path / "packages").iterdir()] == ["a-thing-1.0.tgz"]
    (tmp_path / "packages/a-thing-1.0.tgz").write_bytes(b"cut")
    packages.fetch(tmp_path / "packages", package("npm"))
    assert (tmp_path / "packages/a-thing-1.0.tgz").read_bytes() == CONTENT


def test_another_archive_is_refused_and_not_kept(npm: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is pinned"):
        packages.fetch(tmp_path / "packages", package("npm", b"what was pinned"))
    assert not [*(tmp_path / "packages").iterdir()]


def test_pip_is_the_running_python_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = []

    def run(command: list[str], folder: Path) -> None:
        wanted.append(command)
        (folder / "a-thing-1.0.tgz").write_bytes(CONTENT)

    monkeypatch.setattr(packages, "_run", run)
    packages.fetch(tmp_path / "packages", package("pypi"))
    assert wanted[0][:4] == [sys.executable, "-m", "pip", "download"]
    assert wanted[0][-1] == "a-thing==1.0"
    assert "--no-deps" in wanted[0]


def test_without_npm_the_message_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="npm is not installed"):
        packages.fetch(tmp_path / "packages", package("npm"))


def test_a_client_that_fails_is_quoted(npm: Path, tmp_path: Path) -> None:
    (tmp_path / "bin/npm").write_text("#!/bin/sh\necho no such host >&2\nexit 1\n")
    with pytest.raises(UserError, match="no such host"):
        packages.fetch(tmp_path / "packages", package("npm"))


def test_every_package_is_pinned() -> None:
    for one in PACKAGES.values():
        assert len(bytes.fromhex(one.sha256)) == 32
        assert one.version in one.file
        assert one.licence
        assert one.attribution
