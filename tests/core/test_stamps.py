"""Stamps of a user's files: they follow the content, and unchanged files are not read."""

import os
from pathlib import Path

import pytest

from mispair.core import provenance, stamps
from mispair.core.copied import date_back

LARGE = bytes(range(256)) * (stamps.SMALL // 128)


@pytest.fixture
def shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    provenance.SNAKEMAKE.mkdir()
    path = Path("00000.tar")
    path.write_bytes(LARGE)
    return path


def test_results_that_are_dated_ahead_are_dated_now(shard: Path) -> None:
    """Snakemake would delete what is made from them."""
    now = shard.stat().st_mtime
    folder = Path("results/a")
    folder.mkdir(parents=True)
    for name, seconds in (("past", -5.0), ("soon", 0.5), ("ahead", 7200.0), (".mark", 9.0)):
        (folder / name).touch()
        os.utime(folder / name, (now + seconds, now + seconds))
    assert date_back(now) == 2
    ages = {path.name: path.stat().st_mtime - now for path in folder.iterdir()}
    assert ages == pytest.approx({"past": -5, "soon": 0.5, "ahead": 0, ".mark": 0}, abs=1e-3)
    assert date_back(now) == 0


def stamp(path: Path) -> str:
    """Return a stamp as a new process computes it."""
    stamps._content.cache_clear()
    return stamps.stamp([str(path)])


def change(path: Path) -> None:
    """Change one byte in the middle, and keep size and times."""
    about = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def refuse_to_read(path: Path) -> str:
    raise AssertionError(f"{path} was read")


def test_an_unchanged_file_is_not_read(shard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(stamps, "file_digest", refuse_to_read)
        planned = stamp(shard)
    stamps.remember(shard)
    monkeypatch.setattr(stamps, "file_digest", refuse_to_read)
    stamps.remember(shard)
    assert stamp(shard) == planned


def test_a_touched_file_is_read_once_and_keeps_its_stamp(shard, monkeypatch):
    planned = stamp(shard)
    stamps.remember(shard)
    os.utime(shard)
    assert stamp(shard) == planned
    shard.rename("elsewhere")
    shard.write_bytes(LARGE)  # another inode
    assert stamp(shard) == planned
    monkeypatch.setattr(stamps, "file_digest", refuse_to_read)
    assert stamp(shard) == planned


def test_a_changed_file_of_equal_size_and_time_has_another_stamp(shard: Path) -> None:
    planned = stamp(shard)
    stamps.remember(shard)
    change(shard)
    changed = stamp(shard)
    assert changed != planned
    stamps.remember(shard)
    assert stamp(shard) == changed
    shard.write_bytes(LARGE)
    assert stamp(shard) == planned  # the former content, for which there may be results


def test_a_file_that_changes_between_plan_and_job_has_another_stamp_than_planned(shard):
    planned = stamp(shard)
    shard.write_bytes(LARGE[::-1])
    stamps.remember(shard)
    assert stamp(shard) != planned


def test_a_small_file_needs_no_memory(shard: Path) -> None:
    shard.write_bytes(b"one")
    first = stamp(shard)
    stamps.remember(shard)
    os.utime(shard, (10**9, 10**9))
    assert stamp(shard) == first
    shard.write_bytes(b"two")
    assert stamp(shard) != first
    assert not stamps.DIGESTS.exists()


def test_a_broken_memory_is_written_again(shard: Path) -> None:
    planned = stamp(shard)
    stamps.remember(shard)
    (entry,) = stamps.DIGESTS.iterdir()
    entry.write_text("[1")
    assert stamp(shard) == planned
    stamps.remember(shard)
    os.utime(shard)
    assert stamp(shard) == planned


def test_results_have_no_stamp(shard: Path) -> None:
    made = Path("results/00000.tar")
    made.parent.mkdir()
    made.write_bytes(LARGE)
    first = stamp(made)
    made.write_bytes(LARGE[::-1])
    stamps.remember(made)
    assert stamp(made) == first
    assert not stamps.DIGESTS.exists()


def test_parts_of_results_get_their_times_from_the_result(tmp_path: Path) -> None:
    """They are further names of it: its time would be set twice, in any order."""
    (tmp_path / "reuse").mkdir()
    (tmp_path / "a").touch()
    os.link(tmp_path / "a", tmp_path / "reuse" / "part")
    now = (tmp_path / "a").stat().st_mtime
    os.utime(tmp_path / "a", (now + 7200, now + 7200))
    assert date_back(now, tmp_path) == 1
    assert (tmp_path / "reuse" / "part").stat().st_mtime == pytest.approx(now, abs=1e-3)
