"""Tests that towers load without transformers, which stays importable."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from pathlib import Path
{first}
import mispair.towers.loading as loading
folder = Path(loading.__file__).parent / "shipped" / "scenes-small"
loading.load_towers(folder)
loaded = "transformers" in sys.modules
import transformers
print(loaded, sys.modules["transformers"] is transformers)
"""


@pytest.mark.parametrize(
    ("first", "loaded"),
    [
        pytest.param("", False, id="nothing imported"),
        pytest.param("import transformers", True, id="transformers imported"),
        pytest.param("import open_clip", True, id="open_clip imported"),
    ],
)
def test_transformers_is_imported_by_none_but_its_users(first: str, loaded: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(first=first)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.split() == [str(loaded), "True"]
