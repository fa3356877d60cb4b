"""Copies of shards on a node's own disk."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from mispair.core.files import UserError
from mispair.pairs.shards.staging import SCRATCH, staged


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    """Two shards of one name, as two folders of downloads have them."""
    paths = [tmp_path / name / "00000.tar" for name in ("b", "a")]
    for number, path in enumerate(paths):
        path.parent.mkdir()
        path.write_bytes(bytes([number]) * 100)
    return paths


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("OF_THE_NODE", str(tmp_path))
    monkeypatch.setenv(SCRATCH, "$OF_THE_NODE/scratch")
    return folder


def test_shards_are_read_where_they_are_by_default(shards, monkeypatch):
    monkeypatch.delenv(SCRATCH, raising=False)
    with staged(shards) as local:
        assert local == shards


def test_copies_have_content_names_and_order_and_are_removed(shards, scratch):
    with staged(shards) as local:
        assert [path.read_bytes() for path in local] == [path.read_bytes() for path in shards]
        assert [path.name for path in local] == [path.name for path in shards]
        assert sorted(local) == local
        assert all(path.is_relative_to(scratch) for path in local)
    assert list(scratch.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), staged(shards):
        raise KeyboardInterrupt
    assert list(scratch.iterdir()) == []


def test_a_folder_that_is_missing_or_full_is_named(shards, scratch, monkeypatch):
    with pytest.raises(UserError, match="cannot be copied"), staged([*shards, Path("gone.tar")]):
        pass
    assert list(scratch.iterdir()) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=150))
    with pytest.raises(UserError, match="shards_per_job"), staged(shards):
        pass
    monkeypatch.setenv(SCRATCH, "$NOT_SET_ANYWHERE")
    with pytest.raises(UserError, match="NOT_SET_ANYWHERE"), staged(shards):
        pass
