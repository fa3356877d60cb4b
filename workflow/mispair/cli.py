"""``mispair <step>``: run one step of the workflow by hand, as Snakemake does.

The options of a step come from two places only: its settings, and the files and wildcards that
its ``run`` function names as keyword-only parameters.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import logging
import os
import pkgutil
import sys
import time
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import ValidationError

from mispair import __version__, steps
from mispair.devices import peak_memory
from mispair.files import UserError
from mispair.listings import expanded
from mispair.origins import recorded
from mispair.settings import NONE, is_list, is_optional, is_sweep, option, takes
from mispair.verbs import VERBS

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def step_names() -> list[str]:
    """Return the names of all steps, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(steps.__path__))


def step_module(name: str) -> ModuleType:
    """Import the module of a step; it defines ``Settings`` and ``run``."""
    return importlib.import_module(f"mispair.steps.{name}")


def job_parameters(run: Any) -> dict[str, Any]:
    """Return the keyword-only parameters of a step's ``run`` with their types, in order."""
    hints = get_type_hints(run)
    parameters = inspect.signature(run).parameters.values()
    return {p.name: hints[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}


@cache
def step_parser(name: str) -> argparse.ArgumentParser:
    """Build the command-line parser of a step."""
    module = step_module(name)
    parser = argparse.ArgumentParser(
        prog=f"mispair {name.replace('_', '-')}",
        description=(module.__doc__ or "").strip(),
        allow_abbrev=False,
    )
    job = parser.add_argument_group("files and wildcards of the job")
    for parameter, annotation in job_parameters(module.run).items():
        if get_origin(annotation) is list:
            kind, nargs = get_args(annotation)[0], "*"
        else:
            kind, nargs = get_args(annotation)[0] if is_optional(annotation) else annotation, None
        needed = not is_optional(annotation)
        job.add_argument(option(parameter), type=kind, nargs=nargs, required=needed)
    group = parser.add_argument_group("settings, as in config.yaml")
    for key, field in sorted(module.Settings.model_fields.items()):
        if is_sweep(field):
            continue
        details: dict[str, Any] = {
            "default": argparse.SUPPRESS,
            "help": f"{field.description} Default: {field.default}.".replace("%", "%%"),
        }
        if takes(field.annotation, bool):
            group.add_argument(option(key), action=argparse.BooleanOptionalAction, **details)
        elif is_list(field.annotation):
            group.add_argument(option(key), nargs="*", **details)
        else:
            group.add_argument(option(key), **details)
    return parser


def parsed(name: str, arguments: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Parse the options of a step; return its checked settings, and its files and wildcards."""
    module = step_module(name)
    values = vars(step_parser(name).parse_args(arguments))
    files_and_wildcards = {key: values.pop(key) for key in job_parameters(module.run)}
    for key, value in values.items():
        if value in (NONE, [NONE]) and is_optional(module.Settings.model_fields[key].annotation):
            values[key] = None
    try:
        settings = module.Settings.model_validate(values)
    except ValidationError as error:
        from mispair.config import explain

        raise UserError(explain(error, module.Settings, "the command line")) from error
    return settings, files_and_wildcards


def run_step(name: str, arguments: Sequence[str]) -> None:
    """Parse the options of a step, validate its settings and run it."""
    settings, parameters = parsed(name, arguments)
    files_and_wildcards = {
        key: expanded(value) if isinstance(value, list) else value
        for key, value in parameters.items()
    }
    with recorded(name, settings, files_and_wildcards):
        step_module(name).run(settings, **files_and_wildcards)


def use_one_thread() -> None:
    """Give every numerical library one thread, so that results do not depend on the core count.

    Parallel sums are added in another order on another number of threads; mispair parallelises
    over jobs instead, which is also faster for matrices of this size.
    """
    for variable in THREAD_VARIABLES:
        os.environ[variable] = "1"


def usage() -> str:
    """Return the list of all verbs with one line each."""
    lines = [f"mispair {__version__}", "", "usage: mispair STEP [options]", ""]
    for name in step_names():
        summary = (step_module(name).__doc__ or "").strip().splitlines()[0]
        lines.append(f"  {name.replace('_', '-'):<22} {summary}")
    for verb, run in VERBS.items():
        lines.append(f"  {verb:<22} {(run.__doc__ or '').strip()}")
    return "\n".join([*lines, "", "`mispair STEP --help` lists the options of a step."])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``mispair``; return the exit code: 1 differences, 2 user fault, 130 Ctrl-C."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0
    if arguments[0] == "--version":
        print(__version__)
        return 0
    verb, name = arguments[0], arguments[0].replace("-", "_")
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        if verb in VERBS:
            return VERBS[verb](arguments[1:])
        if name in step_names():
            use_one_thread()
            started = time.perf_counter()
            run_step(name, arguments[1:])
            logging.getLogger(__name__).info(
                "%s took %.1f s; its peak memory was %d MB",
                verb, time.perf_counter() - started, peak_memory("cpu") // 10**6,
            )  # fmt: skip
        else:
            from mispair.config import nearest

            known = [step.replace("_", "-") for step in step_names()] + list(VERBS)
            raise UserError(f"there is no step {verb!r}.{nearest(verb, known)}\n\n{usage()}")
    except UserError as error:
        print(f"\nmispair {verb}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nmispair {verb}: interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0
