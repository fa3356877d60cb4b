"""Made-up packages, and the corpus that is packed from them, for all modules of this folder."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from mispair.emoji.packing import Packing, pack
from tests.emoji import made_up

PACKING = Packing(side=32, smallest_class=5, pairs_per_shard=100)


def changed(folder: Path, copy: Path, files: Mapping[str, bytes | None]) -> Path:
    """Return a copy of a folder with other content of some files; None leaves one out."""
    copy.mkdir()
    for path in folder.iterdir():
        if path.name not in files:
            os.link(path, copy / path.name)
    for name, content in files.items():
        if content is not None:
            (copy / name).write_bytes(content)
    return copy


@pytest.fixture(scope="session")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("emoji") / "packages"
    made_up.write_packages(folder)
    return folder


@pytest.fixture(scope="session")
def packed(fetched: Path) -> Path:
    pack(fetched, fetched.parent / "corpus", PACKING)
    return fetched.parent / "corpus"
