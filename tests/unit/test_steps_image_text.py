"""The small steps of the image-text study, run on files as the rules run them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from mispair import files
from mispair.cli import main
from tests.unit.test_index import whole, write_tar


def index(folder: Path, name: str, keys: list[str]) -> Path:
    shard = write_tar(folder / f"{name}.tar", [member for key in keys for member in whole(key)])
    arguments = [
        "--index",
        str(folder / f"{name}.parquet"),
        "--rejected",
        str(folder / f"{name}.r"),
    ]
    assert main(["index-shards", "--shards", str(shard), *arguments]) == 0
    return folder / f"{name}.parquet"


def corrupt(indexes: list[Path], pairing: Path, rate: str = "0.5") -> int:
    paths = [str(path) for path in indexes]
    return main(["corrupt-captions", "--rate", rate, "--index", *paths, "--pairing", str(pairing)])


def test_the_books_balance(tmp_path: Path) -> None:
    shard = write_tar(tmp_path / "a.tar", [*whole("good"), ("bad.txt", b"x")])
    arguments = ["--index", str(tmp_path / "i"), "--rejected", str(tmp_path / "r")]
    assert main(["index-shards", "--shards", str(shard), *arguments]) == 0
    kept, counts = files.read_parquet(tmp_path / "i")
    rejected, _ = files.read_parquet(tmp_path / "r")
    assert counts == {"read": "2", "kept": "1", "rejected": "1"}
    assert (len(kept), len(rejected)) == (1, 1)


def test_an_index_of_nothing_has_the_same_columns(tmp_path: Path) -> None:
    full = files.read_parquet(index(tmp_path, "a", ["1"]))[0]
    empty = files.read_parquet(index(tmp_path, "b", []))[0]
    assert len(empty) == 0
    pd.testing.assert_series_equal(full.dtypes, empty.dtypes)


def test_a_missing_shard_is_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    arguments = ["--index", str(tmp_path / "i"), "--rejected", str(tmp_path / "r")]
    assert main(["index-shards", "--shards", str(tmp_path / "no.tar"), *arguments]) == 2
    assert "no.tar: there is no such shard" in capsys.readouterr().err


def test_the_order_of_shards_changes_no_byte(tmp_path: Path) -> None:
    indexes = [index(tmp_path, name, [f"{name}{n}" for n in range(4)]) for name in "ab"]
    assert corrupt(indexes, tmp_path / "p") == corrupt(indexes[::-1], tmp_path / "q") == 0
    assert (tmp_path / "p").read_bytes() == (tmp_path / "q").read_bytes()


def test_a_key_in_two_shards_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    indexes = [index(tmp_path, name, ["same"]) for name in "ab"]
    assert corrupt(indexes, tmp_path / "p") == 2
    assert "'same'" in capsys.readouterr().err
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["corupt-captions"], "Did you mean 'corrupt-captions'?"),
        (["corrupt-captions", "--rate", "0.5", "--index", "i", "--pairing", "p", "--seed", "-1"],
         "seed"),
    ],
)  # fmt: skip
def test_command_line_mistakes(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture
) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
