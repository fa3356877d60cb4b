"""Parts of results that later jobs reuse."""

import os

import numpy as np
import pytest

from mispair.core import files, reuse
from mispair.core.cost import BEFORE
from mispair.core.reuse import Parts, forget, tidy


def write(folder, name, values):
    """Write a result of one tensor, of which each row is a part."""
    path = folder / name
    files.write_tensors(path, {"values": np.array(values)})
    parts = Parts(path, ["job"])
    parts.keep_rows({str(value): (row, row + 1) for row, value in enumerate(values)})
    parts.finish()
    return parts


def held(folder, *values, job="job"):
    """Return which of some parts a later job finds."""
    parts = Parts(folder / "another", [job])
    tensors = [parts.rows(str(value)) for value in values]
    assert all(
        rows is None or rows["values"] == [v] for rows, v in zip(tensors, values, strict=True)
    )
    return [value for value, rows in zip(values, tensors, strict=True) if rows is not None]


def test_parts_outlive_their_result_until_another_takes_its_place(tmp_path):
    write(tmp_path, "a.safetensors", [1, 2, 3])
    write(tmp_path, "b.safetensors", [4])
    (tmp_path / "a.safetensors").unlink()
    assert held(tmp_path, 1, 2, 3, 4, 5) == [1, 2, 3, 4]
    assert held(tmp_path, 1, job="other settings") == []
    write(tmp_path, "a.safetensors", [3, 1])
    assert held(tmp_path, 1, 2, 3) == [1, 2, 3]
    tidy(tmp_path)
    assert held(tmp_path, 1, 2, 3, 4) == [1, 3, 4]
    (tmp_path / "b.safetensors").unlink()  # as Snakemake does before it makes it again
    tidy(tmp_path)
    assert held(tmp_path, 1, 3, 4) == [1, 3, 4]


def test_a_result_of_its_own_replaces_its_parts_and_no_others(tmp_path):
    write(tmp_path, "b.safetensors", [2, 3])
    write(tmp_path, "a.safetensors", [1, 4])
    busy = tmp_path / "reuse" / ".of-another-job.part"
    busy.mkdir()
    parts = Parts(tmp_path / "a.safetensors", ["job"])
    parts.keep_rows({"4": (1, 2)})
    parts.replace()
    assert held(tmp_path, 1, 2, 3, 4) == [2, 3, 4]
    tidy(tmp_path)
    assert held(tmp_path, 2, 3, 4) == [2, 3, 4]
    assert busy.is_dir()


def test_parts_of_tensors_take_no_room(tmp_path):
    write(tmp_path, "a.safetensors", [1, 2, 3])
    names = [path for path in (tmp_path / "reuse").iterdir() if path.suffix == ".safetensors"]
    assert {path.stat().st_ino for path in names} == {(tmp_path / "a.safetensors").stat().st_ino}
    assert len(names) == 1  # of a plain copy, too, which has no links


def test_without_hard_links_nothing_is_reused_and_nothing_fails(tmp_path, monkeypatch):
    def refused(*names):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    write(tmp_path, "a.safetensors", [1])
    assert held(tmp_path, 1) == []
    tidy(tmp_path)


@pytest.mark.parametrize("content", [b"", b"cut off", b"\x08\0\0\0\0\0\0\0not JSON"])
def test_a_broken_part_is_computed_again(tmp_path, content):
    parts = write(tmp_path, "a.safetensors", [1])
    for path in (tmp_path / "reuse").glob("*.safetensors"):
        path.unlink()
        path.write_bytes(content)
    assert held(tmp_path, 1) == []

    def computed():
        return [
            {"metric": "m", "value": float("nan")},
            {"metric": "n", "value": np.float64(0.1)},
        ], {}

    again = Parts(tmp_path / "metrics.json", ["job"])
    assert [row["value"] for row in again.measured("set", computed)[0]][1] == 0.1
    kept = again.measured("set", lambda: pytest.fail("computed twice"))
    assert kept == ([{"metric": "m", "value": None}, {"metric": "n", "value": 0.1}], {})
    (again.folder / f"{again.name('set')}.safetensors").write_bytes(content)
    assert again.measured("set", lambda: ([], {})) == ([], {})
    assert parts.folder == again.folder


@pytest.mark.parametrize("table", [
    "", "[1]", "[[1]]", "3", "null", '{"PART": 3}', '{"PART": "abc"}', '{"PART": [0.5, 1]}',
    '{"PART": [-5, -4]}', '{"PART": [1, 3]}', '{"PART": [7, 8]}', '{"PART": []}',
])  # fmt: skip
def test_a_part_of_a_broken_table_is_computed_again(tmp_path, table):
    parts = write(tmp_path, "a.safetensors", [1, 2])
    (path,) = parts.folder.glob("*.rows.json")
    path.write_text(table.replace("PART", parts.name("1")))
    assert held(tmp_path, 1) == []


def test_what_is_forgotten_is_computed_again_and_nothing_else(tmp_path):
    write(tmp_path, "a.safetensors", [1, 2])
    write(tmp_path, "b.safetensors", [3])
    forget(tmp_path / "a.safetensors")
    assert held(tmp_path, 1, 2, 3) == [3]


@pytest.mark.parametrize("function", ["versions", "device_in_use"])
def test_parts_of_other_software_or_processors_are_not_reused(tmp_path, monkeypatch, function):
    write(tmp_path, "a.safetensors", [1])
    others = {"versions": {"torch": "0.1"}, "device_in_use": "another"}[function]
    monkeypatch.setattr(reuse, function, lambda: others)
    assert held(tmp_path, 1) == []


def test_a_folder_without_parts_is_left_alone(tmp_path):
    forget(tmp_path / "a.safetensors")
    tidy(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_job_that_reuses_parts_says_so_for_its_estimates(tmp_path, caplog):
    caplog.set_level("INFO")
    write(tmp_path, "a.safetensors", [1])
    parts = Parts(tmp_path / "b.safetensors", ["job"])
    assert (parts.rows("1") is None, parts.rows("2") is None) == (False, True)
    assert not BEFORE.search(caplog.text)
    parts.finish()
    assert BEFORE.search(caplog.text)[0].startswith("1 of 2 ")
