"""Paths in commands that are no input or output of a job.

They are derived from its inputs and outputs, to which a module's ``prefix:`` is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any


def folder_of_output(wildcards: Any, output: Sequence[str]) -> str:
    """Return the folder of a job's first output."""
    return str(PurePath(output[0]).parent)


def benchmarks_of_report(wildcards: Any, output: Sequence[str]) -> str:
    """Return the folder of benchmarks next to the folder of the report's first output."""
    return str(PurePath(output[0]).parent.with_name("benchmarks"))
