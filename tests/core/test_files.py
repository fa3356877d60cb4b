"""Whole files or none."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from mispair.core import files, metrics


def test_an_interrupted_write_keeps_the_old_file_and_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    files.write_json(target, {"old": 1})
    with pytest.raises(KeyboardInterrupt), files.replacing(target) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert files.read_json(target) == {"old": 1}
    assert os.listdir(tmp_path) == ["result.json"]


def test_round_trips(tmp_path: Path) -> None:
    tensors = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([1], np.int64)}
    files.write_tensors(tmp_path / "t", tensors, {"who": "ä"})
    read, metadata = files.read_tensors(tmp_path / "t")
    assert metadata == {"who": "ä"}
    assert all(np.array_equal(read[name], tensors[name]) for name in tensors)
    table = pd.DataFrame({"key": ["x"], "n": [1]})
    files.write_parquet(tmp_path / "p", table, {"k": "v"})
    back, metadata = files.read_parquet(tmp_path / "p")
    pd.testing.assert_frame_equal(back, table)
    assert metadata == {"k": "v"}


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    metadata = {str(number): "x" for number in range(20)}
    for name in ("a", "b"):
        files.write_tensors(tmp_path / name, {"t": np.ones(3)}, metadata)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_result_can_be_read_by_whom_the_umask_admits(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        files.write_tensors(tmp_path / "t", {"t": np.ones(3)})
    finally:
        os.umask(mask)
    assert (tmp_path / "t").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("values", [[], [None, None], ["a", None]])
def test_a_column_of_texts_is_text_whatever_it_has(values: list[Any], tmp_path: Path) -> None:
    """Rows are looked up by it: in a table of new captions there may be none."""
    texts = pd.DataFrame({"id": pd.Series(values, dtype=object)})
    files.write_parquet(tmp_path / "p", texts)
    found = pq.read_table(tmp_path / "p", filters=[("id", "in", ["a", "b"])])
    assert found["id"].to_pylist() == [value for value in values if value]


@pytest.mark.parametrize("reader", [files.read_json, files.read_parquet, files.read_tensors])
@pytest.mark.parametrize("content", [None, b"", b"\x80\x04garbage that is long enough to be read"])
def test_a_broken_file_is_named(tmp_path: Path, reader, content: bytes | None) -> None:
    path = tmp_path / "broken"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(files.UserError, match="broken"):
        reader(path)


def test_a_missing_json_file_is_not_to_be_deleted(tmp_path: Path) -> None:
    with pytest.raises(files.UserError, match="there is no such file") as raised:
        files.read_json(tmp_path / "run.json")
    assert "Delete" not in str(raised.value)


def test_metrics_have_no_nan(tmp_path: Path) -> None:
    rows = [{"metric": "acc1", "value": np.float32(0.5), "n": np.int64(3)},
            {"metric": "silhouette", "value": float("nan")}]  # fmt: skip
    metrics.write_metrics(tmp_path / "m", rows, {"data": "x"})
    read, provenance = metrics.read_metrics(tmp_path / "m")
    acc1 = {"metric": "acc1", "value": 0.5, "n": 3}
    assert read == [acc1, {"metric": "silhouette", "value": None}]
    assert provenance == {"data": "x"}
    files.write_json(tmp_path / "m", [1])
    with pytest.raises(files.UserError, match="not a metrics file"):
        metrics.read_metrics(tmp_path / "m")
