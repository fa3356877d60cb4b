"""Names of the user's folders in paths of results, and patterns below odd folders."""

from pathlib import Path

import pytest

from mispair.core.files import folder_name, matches, path_name, snapshot

COMMIT = "3f8a1c0d9e2b4f6a8c7d5e1f0a9b8c7d6e5f4a3b"


@pytest.mark.parametrize(("name", "word"), [
    ("wds_vtab-pets_test", "wds_vtab-pets_test"),
    ("a&b;c x#y", "a-b-c-x-y"),
    ("$HOME", "HOME"),
    ("[2024] 100%_done (new)", "2024-100-_done-new"),
    ("cafe\N{COMBINING ACUTE ACCENT} 数据", "café-数据"),
    ("'", "unnamed"),
])  # fmt: skip
def test_a_name_is_one_word(name: str, word: str) -> None:
    assert path_name(name) == word


def test_a_long_name_has_room_for_endings() -> None:
    long = [path_name(f"{'é' * 300}{number}") for number in range(2)]
    assert len({*long}) == 2
    assert all(len(name.encode()) <= 150 for name in long)
    assert path_name(long[0]) == long[0]


@pytest.mark.parametrize(("folder", "name"), [
    (f"datasets--clip-benchmark--wds_cifar10/snapshots/{COMMIT}", "wds_cifar10"),
    (f"models--gpt2/snapshots/{COMMIT}/", "gpt2"),
    (f"models--a--b/snapshots/{COMMIT}/sub set", "sub-set"),
    (f"snapshots/{COMMIT}", COMMIT),
])  # fmt: skip
def test_a_folder_in_a_hub_cache_has_the_name_of_its_repository(folder: str, name: str) -> None:
    assert folder_name(f"/hub/{folder}") == name


def test_a_repository_in_a_hub_cache_is_its_current_commit(tmp_path: Path) -> None:
    """That of the branch main, or the only one, as `hf download --revision` leaves it."""
    assert snapshot(tmp_path) == tmp_path
    (tmp_path / "snapshots" / COMMIT).mkdir(parents=True)
    assert snapshot(tmp_path) == tmp_path  # a folder that happens to have this name
    (tmp_path / "blobs").mkdir()
    assert snapshot(tmp_path) == tmp_path / "snapshots" / COMMIT
    (tmp_path / "snapshots" / "other").mkdir()
    assert snapshot(tmp_path) == tmp_path
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs" / "main").write_text(COMMIT)
    assert snapshot(tmp_path) == tmp_path / "snapshots" / COMMIT


def test_signs_of_existing_folders_are_no_pattern(tmp_path: Path) -> None:
    for name in ("[2024] a{v2}*", "2 a{v2}*"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.tar").touch()
    (found,) = matches(str(tmp_path / "[2024] a{v2}*" / "*.tar"))
    assert found.parent.name == "[2024] a{v2}*"
    assert len(matches(str(tmp_path / "*" / "?.tar"))) == 2
