"""What all tests share."""

from __future__ import annotations

import os

import pytest

# Set before any numerical library is imported: tests see the numbers that the steps compute.
for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_variable] = "1"
# Programs that tests start keep compiled modules, as they do for users; each would compile anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(autouse=True)
def one_state_of_the_libraries() -> None:
    """Set the number of threads before every test, even where it is that number already.

    A training by autograd leaves its process with other kernels of MKL, which round otherwise in
    the last digit, until the number is set: results would depend on which tests ran before. Tests
    that compare bytes with those of a process of their own set it there, too.
    """
    import torch  # after the variables above

    torch.set_num_threads(1)
