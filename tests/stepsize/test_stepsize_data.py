"""Data sets of the stepsize study, CIFAR-10's binary files, and planes that separate."""

from pathlib import Path

import numpy as np
import pytest

from mispair.core.files import UserError
from mispair.stepsize import data_sets, paths
from mispair.stepsize.data_sets import MADE, DataSet
from mispair.stepsize.theory import LARGEST, separation


@pytest.mark.parametrize(
    ("name", "shape", "radius"),
    [("xor4", (4, 2), 2**0.5), ("xor_noise", (200, 2), 1), ("digits_3v8", (357, 64), 1),
     ("digits_parity", (300, 64), 1), ("two_point", (2, 2), 1), ("five_point", (5, 3), 2.8289)],
)  # fmt: skip
def test_the_data_sets_are_of_the_sizes_that_the_study_names(name, shape, radius) -> None:
    data = MADE[name](0)
    assert data.points.shape == shape
    assert set(np.abs(data.labels)) == {1.0}
    slack = 0.05 if name == "digits_parity" else 1e-4  # divided by the largest of all 1,797
    assert data.radius == pytest.approx(radius, abs=slack)
    again, other = MADE[name](0), MADE[name](1)
    assert np.array_equal(again.points, data.points)
    assert np.array_equal(other.points, data.points) == (name not in ("xor_noise", "digits_parity"))


def test_digits_are_split_without_overlap() -> None:
    data = MADE["digits_parity"](3)
    assert len(data.test_labels) == 1497
    every = np.vstack([data.points, data.test_points])
    assert np.linalg.norm(every, axis=1).max() == pytest.approx(1)
    assert abs(np.concatenate([data.labels, data.test_labels]).sum()) < 20


@pytest.mark.parametrize(
    ("name", "margin"), [("two_point", 0.1), ("five_point", 0.05), ("digits_3v8", 0.0451)]
)
def test_the_margin_is_the_largest_one(name: str, margin: float) -> None:
    data = MADE[name](0)
    direction = separation(data)
    assert direction is not None
    assert np.linalg.norm(direction) == pytest.approx(1)
    signed = data.points * data.labels[:, None]
    found = (signed @ direction).min()
    assert found == pytest.approx(margin, rel=2e-3)


@pytest.mark.parametrize(
    "data",
    [MADE["xor4"](0), MADE["xor_noise"](0),
     DataSet(np.array([[1.0, 0], [1.0, 0]]), np.array([1.0, -1.0]))],
    ids=["xor4", "xor_noise", "contradicting points"],
)  # fmt: skip
def test_what_no_plane_separates(data: DataSet) -> None:
    assert separation(data) is None


def test_a_plane_is_not_looked_for_among_too_many_points() -> None:
    data = MADE["two_point"](0)
    many = DataSet(np.tile(data.points, (300_000, 1)), np.ones(600_000))
    assert many.points.size > LARGEST
    assert separation(many) is None
    assert separation(data) is not None


RECORDS = 6


def release(folder: Path, records: int = RECORDS, label: int | None = None) -> list[Path]:
    """Write files of CIFAR-10's record format, with random pixels."""
    rng = np.random.default_rng(0)
    for path in map(Path, paths.cifar_files(str(folder))):
        rows = rng.integers(0, 256, (records, paths.RECORD), dtype=np.uint8)
        rows[:, 0] = [0, 1, 9, 1, 0, 5][:records] if label is None else label
        path.write_bytes(rows.tobytes())
    return [*map(Path, paths.cifar_files(str(folder)))]


def test_cifar_is_read_byte_by_byte(tmp_path: Path) -> None:
    files = release(tmp_path)
    paths.refuse_other_files(str(tmp_path), RECORDS)
    every = data_sets.read_cifar(files, 0, records=RECORDS)
    assert every.points.shape == (20, 3072)  # four of six records in each of five files
    assert sorted(every.labels) == [-1] * 10 + [1] * 10
    assert every.radius == pytest.approx(1)
    raw = files[-1].read_bytes()
    record = np.frombuffer(raw[3 * 3073 + 1 : 4 * 3073], dtype=np.uint8)
    assert raw[3 * 3073] == 1
    assert list(every.test_labels) == [1, -1, -1, 1]
    cosine = every.test_points[2] @ record / np.linalg.norm(record.astype(float))
    assert cosine == pytest.approx(np.linalg.norm(every.test_points[2]))
    some, again = (data_sets.read_cifar(files, 1, images=7, records=RECORDS) for _ in range(2))
    assert some.points.shape == (7, 3072)
    assert np.array_equal(some.points, again.points)


def test_other_files_than_cifars_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"data_batch_1.bin: there is no such file; train_two_layer.cifar_dir"
    ):
        paths.refuse_other_files(str(tmp_path))
    files = release(tmp_path)
    with pytest.raises(UserError, match=r"data_batch_1.bin: has 18,438 bytes.*30,730,000 bytes"):
        paths.refuse_other_files(str(tmp_path))
    files[2].write_bytes(files[2].read_bytes()[:-1])
    with pytest.raises(UserError, match="data_batch_3.bin: has 18,437 bytes"):
        data_sets.read_cifar(files, 0, records=RECORDS)
    with pytest.raises(UserError, match=r"data_batch_1.bin: holds the label 77"):
        data_sets.read_cifar(release(tmp_path, label=77), 0, records=RECORDS)
    with pytest.raises(UserError, match="no airplane or no automobile"):
        data_sets.read_cifar(release(tmp_path, label=1), 0, records=RECORDS)
