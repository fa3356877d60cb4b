"""Command lines of several steps, which one process runs.

A start and its imports take as long as the work of a short step.
"""

from __future__ import annotations

import importlib
import inspect
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any, get_type_hints

from mispair.core.provenance import PACKAGE, step_module_name

# The steps of the workflow, by name.


def step_names() -> list[str]:
    """Return the names of all steps, sorted."""
    return sorted(path.stem for path in PACKAGE.glob("*/steps/[!_]*.py"))


def step_module(name: str) -> ModuleType:
    """Import the module of a step; it defines ``Settings`` and ``run``."""
    return importlib.import_module(step_module_name(name))


def job_parameters(run: Any) -> dict[str, Any]:
    """Return the keyword-only parameters of a step's ``run`` with their types, in order."""
    hints = get_type_hints(run)
    parameters = inspect.signature(run).parameters.values()
    return {p.name: hints[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}


THEN = "+"
"""The word between the commands of steps that one process runs, one after the other."""


def commands(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the commands of the steps that one command line runs.

    A value of an option may be `THEN`, too: a command begins with the name of a step.

    Examples
    --------
    >>> commands(["measure-purity", "--seed", "1", "+", "evaluate-zeroshot"])
    [('measure-purity', '--seed', '1'), ('evaluate-zeroshot',)]
    >>> commands(["encode-prompts", "--name", "+", "--towers", "a"])
    [('encode-prompts', '--name', '+', '--towers', 'a')]
    """
    steps = {name.replace("_", "-") for name in step_names()}
    pairs = enumerate(pairwise(words))
    ends = [place for place, (word, then) in pairs if word == THEN and then in steps]
    starts = [0, *(end + 1 for end in ends)]
    return [tuple(words[a:b]) for a, b in zip(starts, [*ends, len(words)], strict=True)]


def one_after_the_other(steps: Iterable[Mapping[str, Iterable[object]]]) -> str:
    """Return the command line of steps, each given by its options with the words of each.

    Examples
    --------
    >>> one_after_the_other([{"x --a": ["b c"], "--d": []}, {"y --e": [1, 2]}])
    "x --a 'b c' --d + y --e 1 2"
    """
    return f" {THEN} ".join(
        " ".join(" ".join([option, *(shlex.quote(str(word)) for word in words)])
                 for option, words in options.items())
        for options in steps
    )  # fmt: skip
