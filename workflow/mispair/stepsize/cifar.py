"""CIFAR-10's binary release, read as plain bytes: nothing is unpickled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mispair.core.files import UserError
from mispair.stepsize.cifar_files import CIFAR, RECORD, RECORDS, refuse_other_file
from mispair.stepsize.data_sets import MADE, DataSet

TRAIN_IMAGES = 6_000
PLANE, CAR = 0, 1


def data_maker(data_set: str, cifar: list[Path]) -> Callable[[int], DataSet]:
    """Return the function from seed to data set; only cifar2 reads the files of CIFAR-10."""
    return (lambda seed: read_cifar(cifar, seed)) if data_set == CIFAR else MADE[data_set]


def read_cifar(
    files: list[Path], seed: int, images: int = TRAIN_IMAGES, records: int = RECORDS
) -> DataSet:
    """Read airplanes (+) and automobiles (−).

    Pixels are between 0 and 1, divided by the largest norm of a training image. Each file has
    `records` records; the last one is the test set. The seed draws at most `images` training
    images.

    Raises
    ------
    UserError
        If a file is missing, has another size, or holds a label that is no class of CIFAR-10.
    """
    *train, test = files
    parts = [_read(path, records) for path in train]
    points = np.concatenate([part[0] for part in parts])
    labels = np.concatenate([part[1] for part in parts])
    if not (labels == 1).any() or not (labels == -1).any():
        raise UserError(f"{train[0]}: the training files hold no airplane or no automobile.")
    chosen = np.random.default_rng(seed).permutation(len(labels))[:images]
    points, labels = points[chosen], labels[chosen]
    largest = np.linalg.norm(points, axis=1).max()
    test_points, test_labels = _read(test, records)
    return DataSet(points / largest, labels, test_points / largest, test_labels)


def _read(path: Path, records: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    refuse_other_file(path, records)
    rows = np.fromfile(path, dtype=np.uint8).reshape(records, RECORD)
    if (highest := int(rows[:, 0].max())) > 9:
        raise UserError(
            f"{path}: holds the label {highest}, and CIFAR-10 has ten classes, 0 to 9. It is "
            "another data set, or damaged: get the binary release of CIFAR-10 again."
        )
    selected = rows[rows[:, 0] <= CAR]
    labels = np.where(selected[:, 0] == PLANE, 1.0, -1.0)
    return selected[:, 1:].astype(np.float64) / 255, labels
