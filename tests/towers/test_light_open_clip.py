"""Towers load without transformers and torch's compiler, which stay importable."""

import subprocess
import sys

PROGRAM = """
import importlib, sys
from pathlib import Path
import mispair.towers.encoding, mispair.towers.loading as loading
from mispair.towers import light_open_clip
folder = Path(loading.__file__).parent / "shipped" / "scenes-small"
assert loading.load_towers(folder).tokenizer(['a red circle']).any()
names = ("transformers", "torch._dynamo")
assert not {*names} & sys.modules.keys()
import torch, torch._dynamo, transformers
assert sys.modules["transformers"] is transformers and not torch._dynamo.is_compiling()
assert torch.compile(lambda x: 2 * x, backend="eager")(torch.ones(1)).item() == 2
kept = [sys.modules[name] for name in names]
importlib.reload(light_open_clip)
assert kept == [sys.modules[name] for name in names] and torch._dynamo is kept[1]
"""


def test_neither_is_imported_but_by_its_users_nor_hidden_once_it_is() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
