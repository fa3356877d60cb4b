"""Paths in a configuration: where they start, and what is expanded in them."""

import os
import re
from collections.abc import Mapping
from os.path import expandvars
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mispair.core.files import UserError
from mispair.core.paths import from_here
from mispair.core.run_record import RECORD
from mispair.core.settings import Located

NULLS = ("null", "Null", "NULL", "~")
"""Words that are null in YAML."""

COMMAND_LINE = "--config"
"""Name of the settings of the command line among the sources of a configuration."""

Layers = Mapping[str, Mapping[str, Any]]
"""Content of each configuration file, and of ``--config``, by name; later ones take precedence."""


def locate(
    model: type[BaseModel],
    content: dict[str, Any],
    files: Mapping[Path, Mapping[str, Any]],
    command_line: Mapping[str, Any],
) -> Layers:
    """Resolve the relative paths of each configuration file against its folder.

    Environment variables and ``~`` in paths are expanded, and ``null`` on the command line is read
    as in a file.

    Parameters
    ----------
    model : type
        The model of the whole configuration.
    content : dict
        The merged configuration, which is changed where it has the values of a file.
    files : mapping
        Content of each configuration file. Paths in the record of a run start where Snakemake runs.
    command_line : mapping
        Content of ``--config``.

    Returns
    -------
    mapping
        All sources by name.

    Raises
    ------
    UserError
        If an environment variable in a path is not set.
    """
    _read_nulls(content, command_line)
    _start_paths(None, content, command_line, model)
    for path, given in files.items():
        if RECORD not in given:
            _start_paths(path.parent, content, given, model)
    named = {from_here(path): given for path, given in files.items()}
    return named | ({COMMAND_LINE: command_line} if command_line else {})


def _read_nulls(content: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Read null in values of the command line, which Snakemake passes on as a word."""
    for key, value in given.items():
        if isinstance(value, Mapping) and isinstance(content.get(key), dict):
            _read_nulls(content[key], value)
        elif isinstance(value, str) and value in NULLS:
            content[key] = None


def _start_paths(
    folder: Path | None,
    content: dict[str, Any],
    given: Mapping[str, Any],
    model: type[BaseModel],
    section: str = "",
) -> None:
    """Resolve the paths of a source; without a folder, they start where Snakemake runs."""
    for key in content.keys() & given.keys() & model.model_fields.keys():
        field, value = model.model_fields[key], given[key]
        inner = model_in(field.annotation)
        if inner and isinstance(value, dict) and isinstance(content[key], dict):
            _start_paths(folder, content[key], value, inner, f"{section}{key}.")
        elif content[key] == value:
            content[key] = _started(folder, value, field, section + key)


def _started(folder: Path | None, value: Any, field: FieldInfo, setting: str) -> Any:
    marks = [mark for mark in field.metadata if isinstance(mark, Located)]
    inner = model_in(field.annotation)
    if isinstance(value, list):
        return [_started(folder, item, field, setting) for item in value]
    if isinstance(value, dict):
        if inner is None:
            return {
                key: _started(folder, item, field, f"{setting}.{key}")
                for key, item in value.items()
            }
        value = dict(value)
        _start_paths(folder, value, dict(value), inner, f"{setting}.")
        return value
    if not isinstance(value, str) or not marks:
        return value
    if not value.strip():
        raise UserError(f"{setting}: the path is empty. Write one, or take the key out.")
    if not os.path.exists(os.path.join(folder or "", value)):
        value = value.strip()  # a folded text of YAML ends with a line end
    if re.fullmatch(marks[0].names, value):
        return value
    folder = folder or Path()
    value = expanded(folder, local(value), setting)
    is_address = (
        re.match(r"[A-Za-z0-9+.-]+:", value) and not (folder / value.split("/")[0]).exists()
    )
    return value if is_address else from_here(folder / value)


def local(path: str) -> str:
    """Return the path of a ``file://`` address, and other texts as they are."""
    return unquote(path.removeprefix("file://")) if path.startswith("file://") else path


_VARIABLE = re.compile(r"\$\{[^}]*\}?|\$[A-Za-z_]\w*")
"""An environment variable in a path."""
_TYPOGRAPHIC = tuple("“”„‘’‚«»")


def expanded(folder: Path, path: str, setting: str) -> str:
    """Expand environment variables and ``~`` in a path, unless there is such a file or folder.

    Raises
    ------
    UserError
        If there is no such variable or home folder, with the setting.
    """
    if path[:1] in _TYPOGRAPHIC and not (folder / path).exists():
        raise UserError(
            f"{setting}: {path} begins with a typographic quotation mark. Write straight ones "
            '("..."), or none.'
        )
    parts = path.split("/")
    marked = [i for i, part in enumerate(parts) if "$" in part or (not i and part[:1] == "~")]
    if not marked or (folder / "/".join(parts[: marked[0] + 1])).exists():
        return path
    empty = [name for name in _VARIABLE.findall(path) if not expandvars(name)]
    whole = expandvars(os.path.expanduser(path))
    unset = empty or _VARIABLE.findall(whole) or re.findall(r"^~[^/]*", whole)
    if not unset:
        return whole
    what = "home folder" if unset[0].startswith("~") else "environment variable"
    lacks = f"the {what} {unset[0]} is empty" if empty else f"there is no {what} {unset[0]}"
    raise UserError(
        f"{setting}: {lacks}, for the path {path!r}. Define it, or write the whole path."
    )


def is_section(annotation: Any) -> bool:
    """Return whether an annotation is a section of the configuration."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that an annotation is, or that its list or alternatives hold."""
    if is_section(annotation):
        return annotation
    return next(filter(None, map(model_in, get_args(annotation))), None)
