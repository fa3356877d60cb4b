"""Tests that towers load without transformers and torch's compiler, which stay importable."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from pathlib import Path
{first}
import mispair.towers.encoding, mispair.towers.loading as loading
folder = Path(loading.__file__).parent / "shipped" / "scenes-small"
assert loading.load_towers(folder).tokenizer(['a red circle']).any()
print([name in sys.modules for name in ("transformers", "torch._dynamo")])
import torch, torch._dynamo, transformers
doubled = torch.compile(lambda x: 2 * x, backend="eager")(torch.ones(1)).item()
print(sys.modules["transformers"] is transformers, torch._dynamo.is_compiling(), doubled)
"""


@pytest.mark.parametrize(
    ("first", "loaded"),
    [
        pytest.param("", [False, False], id="nothing imported"),
        pytest.param("import open_clip", [True, True], id="open_clip imported"),
    ],
)
def test_neither_is_imported_but_by_its_users(first: str, loaded: list[bool]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(first=first)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [str(loaded), "True False 2.0"]
