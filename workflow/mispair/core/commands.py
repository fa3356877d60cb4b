"""Steps by their names, and their command lines.

One process may run several steps: a start and its imports take as long as the work of a short one.
"""

import importlib
import inspect
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType, ModuleType
from typing import Any, get_type_hints

from mispair.core.provenance import PACKAGE, step_module_name
from mispair.core.settings import is_list, option
from mispair.core.stamps import LISTING, MARK

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


TOOK = "--took"
"""The option of a job for the file of its benchmark, after its last step."""
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


def title(step: str) -> Callable[..., str]:
    """Return the function by which Snakemake makes the title of a step's job: its description.

    It takes the output because Snakemake reruns no job for a parameter that does.
    """
    clause = re.split(r"[.:,;]", step_module(step).__doc__ or "")[0]

    def of_job(wildcards: Any, output: Any) -> str:
        return clause + (f": {', '.join(wildcards)}" if wildcards else "")

    return of_job


def call(
    steps: Sequence[str], given: Mapping[str, Any], flags: Mapping[str, str] = MappingProxyType({})
) -> Callable[..., str]:
    """Return the function by which Snakemake makes the call of a job's steps.

    An option for a file or wildcard, which is a keyword-only parameter of a step's ``run``, gets
    what the job has under its name: in `given`, or else among its outputs, inputs, resources and
    wildcards; ``workers`` are its threads. Functions in `given` are called as Snakemake calls those
    of a rule. Of a listing among the inputs, the step reads the files. A name that the job lacks is
    left to its flags, which are settings: those of `flags` follow their steps.
    """
    options = {step: job_parameters(step_module(step).run) for step in steps}

    def command(wildcards: Any, input: Any, output: Any, threads: int, resources: Any) -> str:
        job = {"input": input, "output": output, "threads": threads, "resources": resources}
        values = {"workers": threads} | dict(wildcards.items()) | dict(resources.items())
        values |= {name: [*map(_marked, _listed(files))] for name, files in input.items()}
        values |= dict(output.items())
        for name, value in given.items():
            if callable(value):
                taken = inspect.signature(value).parameters.keys() & job.keys()
                value = value(wildcards, **{argument: job[argument] for argument in taken})
            values[name] = value
        calls = [
            one_after_the_other([
                {step.replace("_", "-"): ()}
                | {
                    option(name): _listed(values[name])
                    for name, kind in options[step].items()
                    if name in values and (is_list(kind) or _listed(values[name]))
                }
            ])
            for step in steps
        ]  # fmt: skip
        return f" {THEN} ".join(
            f"{one} {flags.get(step, '')}".rstrip() for step, one in zip(steps, calls, strict=True)
        )

    return command


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _marked(path: str) -> str:
    return f"{MARK}{path}" if path.endswith(LISTING) else path
