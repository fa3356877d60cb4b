"""Explain configuration files and ``--config`` that Snakemake refuses without file, line or remedy.

Snakemake imports its plugins before it reads configuration files, so this is the place to do it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

FILES = ("--configfile", "--configfiles")
VALUES = ("--config", "-C")
_NAME = re.compile(r"[a-zA-Z_][\w-]*\w")


def refuse_unreadable(arguments: Sequence[str]) -> None:
    """End the program with a message if its configuration cannot be read.

    Parameters
    ----------
    arguments : sequence of str
        Of Snakemake's command line, with its name first; other programs are left alone.

    Raises
    ------
    SystemExit
        With the message.
    """
    if not arguments or not re.search(r"snakemake(\.exe|/__main__\.py)?$", arguments[0]):
        return
    faults = [_fault_of_file(Path(name)) for name in _values(arguments, FILES)]
    faults += [_fault_of_entry(entry) for entry in _values(arguments, VALUES)]
    if fault := next(filter(None, faults), ""):
        sys.exit(fault)


def _values(arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return all values of an option that takes one or more, in either notation."""
    values, taken = [], False
    for argument in arguments[1:]:
        name, equals, first = argument.partition("=")
        if argument.startswith("-"):
            taken = name in options
            values += [first] if taken and equals else []
        elif taken:
            values.append(argument)
    return values


def _fault_of_file(path: Path) -> str:
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return f"--configfile: {path} is not text in UTF-8. Save it as such, without formatting."
    except OSError as error:
        return (
            f"--configfile: {path.absolute()} cannot be read ({error.strerror}). A relative path "
            "starts at the folder in which Snakemake is started."
        )
    try:
        json.loads(text)
    except ValueError:
        try:
            yaml.compose(text)
        except yaml.MarkedYAMLError as error:
            return _explained(path, text, error)
        except yaml.YAMLError as error:
            return f"--configfile: {path} is not valid YAML ({' '.join(str(error).split())})."
    return ""


def _explained(path: Path, text: str, error: object) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", "") or "not valid YAML"
    if mark is None:
        return f"--configfile: {path} is not valid YAML ({problem})."
    lines = text.splitlines()
    line = lines[mark.line].strip()[:80] if mark.line < len(lines) else "its end"
    return (
        f"--configfile: {path}, line {mark.line + 1}, cannot be read: {line!r} ({problem}). Keys "
        "of one section begin in the same column, after spaces and not tabs, and have a colon and "
        "a blank; quote text with a colon or a bracket."
    )


def _fault_of_entry(entry: str) -> str:
    key, equals, value = entry.partition("=")
    if equals and _NAME.fullmatch(key):
        return ""
    section, dot, name = key.partition(".")
    if dot and equals and _NAME.fullmatch(section):
        for part in reversed(name.split(".")):
            value = f"{{{part}: {value}}}"
        return (
            f"--config {entry}: a key has no dots. Give a key of a section as "
            f'--config "{section}={value}".'
        )
    return f"--config {entry}: is not of the form KEY=VALUE. Give such as --config corpus=mine."
