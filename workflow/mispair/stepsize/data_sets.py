"""Data sets of the study: a few points, generated clouds, handwritten digits, a local CIFAR-10."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mispair.core.files import UserError
from mispair.stepsize.paths import CIFAR, RECORD, RECORDS, refuse_other_file

Array = NDArray[np.float64]

NOISE = 0.15
"""Standard deviation of xor_noise around each corner, before it is scaled."""
CORNER_POINTS = 50
DIGITS_TRAIN = 300
TWO_POINT_MARGIN = 0.1


@dataclass(frozen=True)
class DataSet:
    """Points with labels ±1.

    Attributes
    ----------
    points : ndarray (n, d)
        Training points.
    labels : ndarray (n,)
        +1 or −1.
    test_points, test_labels : ndarray
        The test set; without rows if there is none.
    """

    points: Array
    labels: Array
    test_points: Array = field(default_factory=lambda: np.zeros((0, 0)))
    test_labels: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def radius(self) -> float:
        """The largest norm R of a training point."""
        return float(np.linalg.norm(self.points, axis=1).max())


CORNERS = np.array([[-1.0, -1.0], [1.0, 1.0], [1.0, -1.0], [-1.0, 1.0]])
CORNER_LABELS = np.array([1.0, 1.0, -1.0, -1.0])


def xor4(seed: int) -> DataSet:
    """Return the four corners of XOR, of norm √2."""
    return DataSet(CORNERS.copy(), CORNER_LABELS.copy())


def xor_noise(seed: int) -> DataSet:
    """Return fifty points around each corner, divided by their largest norm."""
    noise = np.random.default_rng(seed).standard_normal((4 * CORNER_POINTS, 2))
    points = np.repeat(CORNERS, CORNER_POINTS, axis=0) + NOISE * noise
    return DataSet(_scaled(points), np.repeat(CORNER_LABELS, CORNER_POINTS))


def digits_parity(seed: int) -> DataSet:
    """Return even (+) and odd (−) handwritten digits: 300 to train on, 1,497 to test."""
    pixels, digits = _digits()
    order = np.random.default_rng(seed).permutation(len(digits))
    points, labels = _scaled(pixels)[order], np.where(digits % 2 == 0, 1.0, -1.0)[order]
    return DataSet(points[:DIGITS_TRAIN], labels[:DIGITS_TRAIN],
                   points[DIGITS_TRAIN:], labels[DIGITS_TRAIN:])  # fmt: skip


def digits_3v8(seed: int) -> DataSet:
    """Return handwritten 3 (+) and 8 (−), which a plane through the origin separates."""
    pixels, digits = _digits()
    selected = (digits == 3) | (digits == 8)
    return DataSet(_scaled(pixels[selected]), np.where(digits[selected] == 3, 1.0, -1.0))


def two_point(seed: int) -> DataSet:
    """Return two points of one class whose gradients conflict: the lower bound's example."""
    g = TWO_POINT_MARGIN
    height = np.sqrt(1 - g * g)
    return DataSet(np.array([[g, height], [g, -height / 2]]), np.ones(2))


def five_point(seed: int) -> DataSet:
    """Return five points that a network of two neurons fits, but neither neuron fits alone."""
    points = [[0.05, 1, 2], [0.05, -2, 1], [-1, 0, 2], [0.05, -2, -2], [0.05, 1, -2]]
    return DataSet(np.array(points), np.array([1.0, 1.0, -1.0, 1.0, 1.0]))


def _scaled(points: Array) -> Array:
    scaled: Array = points / np.linalg.norm(points, axis=1).max()
    return scaled


def _digits() -> tuple[Array, NDArray[np.int64]]:
    """Return the 1,797 pictures of 8 × 8 pixels that come with scikit-learn."""
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    return pixels / 16, digits


MADE = {
    "xor4": xor4,
    "xor_noise": xor_noise,
    "digits_parity": digits_parity,
    "digits_3v8": digits_3v8,
    "two_point": two_point,
    "five_point": five_point,
}
"""Functions that make a data set from a seed; most ignore the seed."""

SEEDED = frozenset(("xor_noise", "digits_parity", CIFAR))
"""Data sets that depend on the seed, by their noise or their split."""

START_SCALES = {"two_point": 0.0, "five_point": 0.1}
"""Standard deviation of the weights at the start, where it is not 1."""


def start_weights(name: str, width: int, dimensions: int, seed: int) -> Array:
    """Return the weights (width, dimensions) that training begins with."""
    drawn = np.random.default_rng(seed).standard_normal((width, dimensions))
    return drawn * START_SCALES.get(name, 1.0)


def output_signs(width: int) -> Array:
    """Return the fixed output weights: +1, −1, +1, ..."""
    return np.where(np.arange(width) % 2 == 0, 1.0, -1.0)


# CIFAR-10's binary release, read as plain bytes: nothing is unpickled.

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
