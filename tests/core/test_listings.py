"""Listings of files, which jobs have as their input instead of thousands of files."""

import subprocess
from pathlib import Path

import pytest

from mispair import cli
from mispair.core import files
from mispair.core.cost import Sizes
from mispair.core.stamps import expanded, files_of

NAMES = ("0000.parquet", "0000.rejected.parquet", "0001.parquet")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some").mkdir()
    for name in NAMES:
        (tmp_path / "some" / name).write_text(name)
    return tmp_path / "some"


def _list(folder: Path) -> int:
    listings = [str(folder / f"{kind}.sha256") for kind in ("parquet", "rejected.parquet")]
    given = [str(folder / name) for name in NAMES]
    return cli.main(["list-files", "--files", *given, "--listings", *listings])


def test_a_listing_has_the_files_of_its_ending_and_sha256sum_agrees(folder: Path) -> None:
    assert _list(folder.relative_to(Path.cwd())) == 0
    assert files_of(folder / "parquet.sha256") == [folder / NAMES[0], folder / NAMES[2]]
    assert files_of(folder / "rejected.parquet.sha256") == [folder / NAMES[1]]
    subprocess.run(["sha256sum", "--check", "parquet.sha256"], cwd=folder, check=True)


def test_a_listing_changes_with_the_content_of_a_file_alone(folder: Path) -> None:
    _list(folder)
    before = (folder / "parquet.sha256").read_bytes()
    moved = folder.rename(folder.with_name("moved"))
    (moved / NAMES[0]).touch()
    _list(moved)
    assert (moved / "parquet.sha256").read_bytes() == before
    (moved / NAMES[0]).write_text("other")
    _list(moved)
    assert (moved / "parquet.sha256").read_bytes() != before


def test_the_command_line_takes_a_listing_for_its_files(folder: Path) -> None:
    _list(folder)
    given = [Path("some/alone"), Path("@some/parquet.sha256")]
    assert expanded(given) == [Path("some/alone"), *(Path("some", NAMES[n]) for n in (0, 2))]


def test_missing_files_and_listings_are_named(folder: Path) -> None:
    _list(folder)
    (folder / NAMES[2]).unlink()
    with pytest.raises(files.UserError, match=r"1 of its 2 files .*0001\.parquet\. Delete") as one:
        expanded([Path("@some/parquet.sha256")])
    assert "some/parquet.sha256" in str(one.value)
    with pytest.raises(files.UserError, match=r"none\.sha256: cannot be read"):
        expanded([Path("@some/none.sha256")])


def test_the_plan_counts_the_rows_of_listed_files(folder: Path) -> None:
    import pandas as pd

    for name in NAMES:
        files.write_parquet(folder / name, pd.DataFrame({"key": ["a", "b"]}))
    _list(folder)
    assert Sizes(folder.parent).rows(Path("@some/parquet.sha256")) == 4
