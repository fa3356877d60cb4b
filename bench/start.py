"""What the start of a job costs: processor time of the imports that a job with towers needs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
SHIPPED = "mispair/towers/shipped/scenes-small"

PARTS = {
    "Python": "pass",
    "the command line and the options of a step": "from mispair import cli",
    "numpy": "import numpy",
    "torch": "import torch",
    "open_clip, timm and torchvision": "import mispair.towers.light_open_clip",
    "modules of mispair that encode": "from mispair.towers import encoding_job, loading",
    "the towers": f"towers = loading.load_towers(Path({SHIPPED!r}))",
    "their tokenizer": "tokens = towers.tokenizer(['a red circle'])",
    "features of one text": "towers.text_features(tokens)",
}
"""What a job of `encode_prompts` does before its first text, in order; each needs those before."""

LIBRARIES = {
    "pandas": "import pandas",
    "pyarrow.parquet": "import pyarrow.parquet",
    "scipy.special": "import scipy.special",
    "scipy.stats": "import scipy.stats",
    "sklearn.linear_model": "import sklearn.linear_model",
    "altair": "import altair",
    "transformers.AutoTokenizer": "from transformers import AutoTokenizer",
}
"""Imports after numpy's, each in a process of its own."""


def measure(repetitions: int = 5) -> Iterator[tuple[str, str, str, str]]:
    """Yield the parts of a start, and what single libraries add to numpy."""
    lines = list(PARTS.values())
    programs = [
        "\n".join(["from pathlib import Path", *lines[: end + 1]]) for end in range(len(lines))
    ]
    times = _least(programs, repetitions)
    for name, before, after in zip(PARTS, [0.0, *times], times, strict=False):
        yield (
            f"start, {name}",
            f"{after - before:.2f} s",
            f"{after:.2f} s by then",
            "processor time",
        )
    numpy, *times = _least(
        ["import numpy", *(f"import numpy\n{one}" for one in LIBRARIES.values())], repetitions
    )
    for name, seconds in zip(LIBRARIES, times, strict=True):
        yield (
            f"import, {name}",
            f"{seconds - numpy:.2f} s",
            f"{numpy:.2f} s of numpy",
            "processor time",
        )


def _least(programs: list[str], repetitions: int) -> list[float]:
    """Return the least processor time of each program, run in turns; the first turn compiles."""
    environment = {**os.environ, "PYTHONPATH": "."}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    turns = []
    for _ in range(repetitions + 1):
        turn = []
        for program in programs:
            before = _of_children()
            subprocess.run(
                [sys.executable, "-c", program],
                check=True, env=environment, cwd=REPOSITORY / "workflow",
            )  # fmt: skip
            turn.append(_of_children() - before)
        turns.append(turn)
    return [min(times) for times in zip(*turns[1:], strict=True)]


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
