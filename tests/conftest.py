"""What all tests share."""

from __future__ import annotations

import os

# Set before any numerical library is imported: tests see the numbers that the steps compute.
for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_variable] = "1"
# Programs that tests start keep compiled modules, as they do for users; each would compile anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
