"""What all tests of one process share."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def one_state_of_the_libraries() -> None:
    """Set the number of threads before every test, even where it is that number already.

    A training by autograd leaves its process with other kernels of MKL, which round otherwise in
    the last digit, until the number is set: results would depend on which tests ran before. Tests
    that compare bytes with those of a process of their own set it there, too.
    """
    torch.set_num_threads(1)
