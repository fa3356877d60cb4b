"""Paths of the trainings (see `mispair.core.paths`), and the files of CIFAR-10 that they read."""

from pathlib import Path

from mispair.core.files import UserError

TWO_LAYER = "results/stepsize/{part}/{data_set}/{activation}.json"
MULTILAYER = "results/stepsize/multilayer/{data_set}.json"


# CIFAR-10's binary release.

CIFAR = "cifar2"
"""Name of the data set that is made from them: airplanes against automobiles."""
RECORD = 1 + 3 * 32 * 32
"""Bytes of a record: a label, and the pixels' red, green and blue."""
TRAIN_FILES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_FILE = "test_batch.bin"
RECORDS = 10_000
"""Records in each file of the release."""


def cifar_files(folder: str) -> list[str]:
    """Return the files of the release that are read, training first."""
    return [str(Path(folder) / name) for name in (*TRAIN_FILES, TEST_FILE)]


def refuse_other_files(folder: str, records: int = RECORDS) -> None:
    """Check that the files are there and of the right size.

    Raises
    ------
    UserError
        Naming the first file that is missing or has another size.
    """
    for path in map(Path, cifar_files(folder)):
        refuse_other_file(path, records)


def refuse_other_file(path: Path, records: int = RECORDS) -> None:
    """Check one of the files; see `refuse_other_files`."""
    expected = (
        "train_two_layer.cifar_dir must be the folder cifar-10-batches-bin of CIFAR-10's binary "
        f"release, with {', '.join(TRAIN_FILES)} and {TEST_FILE} of {records * RECORD:,} bytes each"
    )
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; {expected}.")
    if (size := path.stat().st_size) != records * RECORD:
        raise UserError(f"{path}: has {size:,} bytes; {expected}.")
