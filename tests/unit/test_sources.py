"""Shard paths by list, glob, brace pattern and folder; and a source that matches nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from mispair.files import UserError
from mispair.pairs.sources import resolve_shards


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(12):
        (tmp_path / f"{number:05d}.tar").touch()
    (tmp_path / "notes.txt").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("", [f"{n:05d}.tar" for n in range(12)]),
        ("0000?.tar", [f"{n:05d}.tar" for n in range(10)]),
        ("{00009..00011}.tar", ["00009.tar", "00010.tar", "00011.tar"]),
        ("000{01,11}.tar", ["00001.tar", "00011.tar"]),
        ("00003.tar", ["00003.tar"]),
    ],
)
def test_every_form_of_source(folder: Path, pattern: str, names: list[str]) -> None:
    assert [shard.name for shard in resolve_shards(str(folder / pattern))] == names


def test_a_list_in_any_order_is_the_same(folder: Path) -> None:
    shards = [str(folder / f"{n:05d}.tar") for n in (5, 1, 3)]
    assert resolve_shards(shards) == resolve_shards(sorted(shards))


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("nothing*.tar", "matches no file"),
        ("{00000..00020}.tar", "21 shards, of which 9 do not exist, the first .*00012.tar"),
        ("{00000-00002}.tar", "neither"),
    ],
)
def test_what_matches_nothing_is_an_error(folder: Path, pattern: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        resolve_shards(str(folder / pattern))


def test_an_empty_folder_and_an_empty_list(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no .tar file"):
        resolve_shards(str(tmp_path))
    with pytest.raises(UserError, match="list is empty"):
        resolve_shards([])


def test_a_shard_named_twice(folder: Path) -> None:
    with pytest.raises(UserError, match="more than once"):
        resolve_shards([str(folder), str(folder / "00003.tar")])
