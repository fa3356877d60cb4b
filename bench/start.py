"""What the start of a job costs: processor time of the imports that a job with towers needs."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
SHIPPED = "mispair/towers/shipped/scenes-small"

PARTS = {
    "Python": "pass",
    "the command line and the options of a step": "from mispair import cli",
    "numpy": "import numpy",
    "torch": "import torch",
    "open_clip, timm and torchvision": "import mispair.towers.light_open_clip",
    "modules of mispair that encode": "from mispair.towers import encoding, loading",
    "the towers": f"towers = loading.load_towers(loading.Path({SHIPPED!r}))",
    "their tokenizer": "tokens = towers.tokenizer(['a red circle'])",
    "features of one text": "towers.text_features(tokens)",
}
"""What a job of `encode_prompts` does before its first text, in order; each needs those before."""

LIBRARIES = {
    "pandas": ("numpy", "pandas"),
    "pyarrow.parquet": ("numpy", "pyarrow.parquet"),
    "scipy.special": ("numpy", "scipy.special"),
    "scipy.stats": ("numpy", "scipy.stats"),
    "sklearn.linear_model": ("numpy", "sklearn.linear_model"),
    "altair": ("pandas", "altair"),
    "transformers.models.auto": ("torch", "transformers.models.auto.tokenization_auto"),
}
"""Imports, each in a process of its own, after the one before them that a job has anyway."""

CLOCK = "print(time.process_time())"


def measure(repetitions: int = 5) -> Iterator[tuple[str, str, str, str]]:
    """Yield the parts of a start, and what single libraries add to it."""
    what = "processor time"
    by_then = 0.0
    for name, seconds in zip(PARTS, _least(PARTS.values(), repetitions), strict=True):
        by_then += seconds
        yield f"start, {name}", f"{seconds:.2f} s", f"{by_then:.2f} s by then", what
    for name, modules in LIBRARIES.items():
        before, seconds = _least([f"import {module}" for module in modules], repetitions)
        yield f"import, {name}", f"{seconds:.2f} s", f"{before:.2f} s for {modules[0]}", what


def _least(parts: Iterable[str], repetitions: int) -> list[float]:
    """Return the least processor time of each part of a program, which runs several times."""
    program = "\n".join(["import time", *(f"{part}\n{CLOCK}" for part in parts)])
    environment = {**os.environ, "PYTHONPATH": "."}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    runs = []
    for _ in range(repetitions + 1):
        done = subprocess.run(
            [sys.executable, "-c", program],
            check=True, env=environment, cwd=REPOSITORY / "workflow", text=True,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        clocks = [0.0, *map(float, done.stdout.split())]
        runs.append([after - before for before, after in pairwise(clocks)])
    return [min(times) for times in zip(*runs[1:], strict=True)]  # the first run compiles modules
