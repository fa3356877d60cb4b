"""Command lines of several steps, which one process runs.

A start and its imports take as long as the work of a short step.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from mispair.core.registry import step_names

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
