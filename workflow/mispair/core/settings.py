"""Base of the settings of steps: validation, and their form on the command line.

A step's ``Settings`` model is the only source of its section in ``config.yaml``, its command-line
flags, the JSON schema and the reference page.
"""

import shlex
import types
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, model_validator

NONE = "none"
"""An optional setting without a value on the command line."""


class Settings(BaseModel):
    """Base of all settings: unknown keys, booleans for numbers and repeated values fail."""

    # A default has the form of a written value: 200.0 where the setting is a float.
    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, validate_default=True
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_pydantic_would_bend(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        for name, value in values.items():
            field = cls.model_fields.get(name)
            if field is None:
                continue
            items = value if isinstance(value, list) else [value]
            if any(isinstance(item, bool) for item in items) and not takes(field.annotation, bool):
                raise ValueError(f"{name}: {value} is a truth value, not a number or a name")
            if isinstance(value, list):
                # In paths, rates have six digits.
                named = [f"{item:g}" if isinstance(item, float) else str(item) for item in value]
                repeated = sorted({item for item in named if named.count(item) > 1})
                if repeated:
                    raise ValueError(f"{name}: {', '.join(repeated)} is listed twice")
        return values


def sweep(default: Any, **field: Any) -> Any:
    """Declare a setting that the DAG spreads over jobs; it never reaches a job's command line.

    Adding a value to a sweep therefore leaves the jobs of the other values as they are.
    """
    return Field(default, json_schema_extra={"sweep": True}, **field)


def passed_on(default: Any, **field: Any) -> Any:
    """Declare a setting of a section that the DAG hands to jobs of another step."""
    return Field(default, json_schema_extra={"sweep": True, "passed_on": True}, **field)


class Located(NamedTuple):
    """Marks a setting that names files: relative paths start at the file that gives them."""

    names: str = ""
    """Regular expression of values that are no paths."""


def is_sweep(field: Any) -> bool:
    """Return whether a pydantic field is on no command line of its step."""
    return bool((field.json_schema_extra or {}).get("sweep"))


def is_passed_on(field: Any) -> bool:
    """Return whether a pydantic field was declared with `passed_on`."""
    return bool((field.json_schema_extra or {}).get("passed_on"))


def takes(annotation: Any, kind: type) -> bool:
    """Return whether an annotation such as ``list[int] | None`` admits values of `kind`."""
    if annotation is kind:
        return True
    if get_origin(annotation) is Literal:
        return any(type(choice) is kind for choice in get_args(annotation))
    return any(takes(argument, kind) for argument in get_args(annotation))


def is_list(annotation: Any) -> bool:
    """Return whether an annotation is a list, or a list or None."""
    if get_origin(annotation) in (Union, types.UnionType):
        return any(is_list(argument) for argument in get_args(annotation))
    return get_origin(annotation) is list


def is_optional(annotation: Any) -> bool:
    """Return whether an annotation admits None."""
    return get_origin(annotation) in (Union, types.UnionType) and type(None) in get_args(annotation)


def option(name: str) -> str:
    """Return the command-line option of a setting or file: ``batch_size`` is ``--batch-size``."""
    return "--" + name.replace("_", "-")


def command_line(settings: Settings) -> str:
    """Render the settings of a job as one sorted string of command-line flags.

    One string, because Snakemake compares the values of ``params`` as a set without names: if each
    setting were one, a change from ``epochs=1, seed=2`` to ``epochs=2, seed=1`` would be missed.

    Examples
    --------
    >>> class Example(Settings):
    ...     epochs: int = 3
    ...     names: list[str] = ["a", "b c"]
    ...     shuffle: bool = False
    >>> command_line(Example())
    "--epochs 3 --names a 'b c' --no-shuffle"
    """
    flags = []
    for name, field in sorted(type(settings).model_fields.items()):
        if is_sweep(field):
            continue
        value = getattr(settings, name)
        if isinstance(value, bool) and is_optional(field.annotation):
            flags.append(f"{option(name)} {str(value).lower()}")
        elif isinstance(value, bool):
            flags.append(option(name if value else f"no_{name}"))
        elif isinstance(value, list):
            flags.append(" ".join([option(name), *(shlex.quote(str(item)) for item in value)]))
        else:
            flags.append(f"{option(name)} {NONE if value is None else shlex.quote(str(value))}")
    return " ".join(flags)
