"""The command of a step: its options, and how it runs. Other verbs share parts of it.

The options of a step come from two places only: its settings, and the files and wildcards that
its ``run`` function names as keyword-only parameters.
"""

import argparse
import os
from collections.abc import Sequence
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from mispair.config_mistakes import explain
from mispair.core.commands import job_parameters, step_module
from mispair.core.files import UserError
from mispair.core.run_record import recorded
from mispair.core.settings import NONE, Settings, is_list, is_optional, is_sweep, option, takes
from mispair.core.stamps import expanded

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def command_parser(verb: str, description: str) -> argparse.ArgumentParser:
    """Return the parser of a verb, without options."""
    return argparse.ArgumentParser(
        prog=f"mispair {verb}", description=description, allow_abbrev=False
    )


def add_settings(
    parser: argparse.ArgumentParser, model: type[Settings], title: str = "settings"
) -> None:
    """Add an option for each setting of a model that is no sweep; see `checked`."""
    group = parser.add_argument_group(title)
    for key, field in sorted(model.model_fields.items()):
        if is_sweep(field):
            continue
        details: dict[str, Any] = {
            "default": argparse.SUPPRESS,
            "help": f"{field.description} Default: {field.default}.".replace("%", "%%"),
        }
        if takes(field.annotation, bool) and not is_optional(field.annotation):
            group.add_argument(option(key), action=argparse.BooleanOptionalAction, **details)
        elif is_list(field.annotation):
            group.add_argument(option(key), nargs="*", **details)
        else:
            group.add_argument(option(key), **details)


def checked(model: type[Settings], values: dict[str, Any]) -> Any:
    """Return settings from the options of `add_settings`; what is left out has its default.

    Raises
    ------
    UserError
        If a value is not admitted.
    """
    fields = model.model_fields
    values = {
        key: None if value in (NONE, [NONE]) and is_optional(fields[key].annotation) else value
        for key, value in values.items()
    }
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UserError(explain(error, model, "the command line")) from error


@cache
def step_parser(name: str) -> argparse.ArgumentParser:
    """Build the command-line parser of a step."""
    module = step_module(name)
    parser = command_parser(name.replace("_", "-"), (module.__doc__ or "").strip())
    job = parser.add_argument_group("files and wildcards of the job")
    for parameter, annotation in job_parameters(module.run).items():
        if is_list(annotation):
            listed = next(a for a in (annotation, *get_args(annotation)) if get_origin(a) is list)
            kind, nargs = get_args(listed)[0], "*"
        else:
            kind, nargs = get_args(annotation)[0] if is_optional(annotation) else annotation, None
        needed = not is_optional(annotation)
        job.add_argument(option(parameter), type=kind, nargs=nargs, required=needed)
    add_settings(parser, module.Settings, "settings, as in config.yaml")
    return parser


def parsed(name: str, arguments: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Parse the options of a step; return its checked settings, and its files and wildcards."""
    module = step_module(name)
    values = vars(step_parser(name).parse_args(arguments))
    files_and_wildcards = {key: values.pop(key) for key in job_parameters(module.run)}
    return checked(module.Settings, values), files_and_wildcards


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
    # A thread of pyarrow's gives memory back; without it a process can have forks.
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
