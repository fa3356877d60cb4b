"""The work of a job, from its command."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

from mispair.command import parsed
from mispair.core.commands import commands
from mispair.core.cost import Work
from mispair.core.provenance import step_module_name
from mispair.core.sizes import Sizes


def work_of(command: tuple[str, ...], sizes: Sizes) -> Work:
    """Return the work of a job from its command, and note the sizes of its outputs.

    The work of a job that runs several steps is the sum over these.
    """
    first, *others = (_work_of_step(words, sizes) for words in commands(command))
    return sum(others, first)


def _work_of_step(command: tuple[str, ...], sizes: Sizes) -> Work:
    step = command[0].replace("-", "_")
    package = ".".join(step_module_name(step).split(".")[:2])
    try:
        function = getattr(import_module(f"{package}.cost"), step, None)
    except ModuleNotFoundError as error:
        if error.name != f"{package}.cost":
            raise
        function = None
    if function is None:
        return Work()
    settings, files_and_wildcards = parsed(step, command[1:])
    work: Work = function(settings, SimpleNamespace(**files_and_wildcards), sizes)
    return work
