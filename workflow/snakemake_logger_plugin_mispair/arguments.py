"""Explain configuration files and ``--config`` that Snakemake refuses without file, line or remedy.

Snakemake imports its plugins before it reads configuration files, so this is the place to do it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import yaml

FILES = ("--configfile", "--configfiles")
VALUES = ("--config", "-C")
_NAME = re.compile(r"[a-zA-Z_][\w-]*\w")
"""A key that Snakemake takes: no single letter."""
_SECTION = re.compile(r"[a-zA-Z_][\w-]*")


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
    if fault := fault_of(arguments[1:]):
        sys.exit(fault)


def fault_of(options: Sequence[str]) -> str:
    """Return the first fault of the configuration that Snakemake's options name, or nothing."""
    faults = [_fault_of_file(Path(name)) for name in _values(options, FILES)]
    faults += [_fault_of_entry(entry) for entry in _values(options, VALUES)]
    return next(filter(None, faults), "")


def _values(arguments: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return all values of an option that takes one or more, in either notation."""
    values, taken = [], False
    for argument in arguments:
        name, equals, first = argument.partition("=")
        if argument.startswith("-"):
            taken = name in names
            values += [first] if taken and equals else []
        elif taken:
            values.append(argument)
    return values


def _fault_of_file(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return f"--configfile: {path} is not text in UTF-8. Save it as such, without formatting."
    except OSError as error:
        remedy = "A relative path starts at the folder in which Snakemake is started."
        if not path.suffix:
            remedy = f"If {path} is a target, write it before --configfile, which takes many files."
        return f"--configfile: {path.absolute()} cannot be read ({error.strerror}). {remedy}"
    try:
        content = json.loads(text, object_pairs_hook=_each_once)
    except ValueError:
        try:
            content = yaml.load(text, _EachKeyOnce)
        except yaml.MarkedYAMLError as error:
            return _explained(path, text, error)
        except (yaml.YAMLError, ValueError) as error:
            return f"--configfile: {path} is not valid YAML ({' '.join(str(error).split())})."
    if isinstance(content, dict):
        return ""
    what = "only comments" if content is None else f"a {type(content).__name__} and no keys"
    return f"--configfile: {path} holds {what}. Write a key and its value, such as corpus: mine."


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({*map(itemgetter(0), pairs)}) < len(pairs):
        raise ValueError  # read as YAML it has a line
    return dict(pairs)


class _EachKeyOnce(yaml.SafeLoader):
    """Refuses a key that is given twice, of which YAML takes the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        before: set[object] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                continue
            if key.value in before:
                problem = f"the key {key.value!r} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            before.add(key.value)
        return super().construct_mapping(node, deep)


def _explained(path: Path, text: str, error: yaml.MarkedYAMLError) -> str:
    mark, problem = error.problem_mark or error.context_mark, error.problem or "not valid YAML"
    if mark is None:
        return f"--configfile: {path} is not valid YAML ({problem})."
    lines = text.splitlines()
    line = repr(lines[mark.line].strip()[:80]) if mark.line < len(lines) else "the end of the file"
    is_form = not isinstance(error, yaml.constructor.ConstructorError)
    return f"--configfile: {path}, line {mark.line + 1}, cannot be read: {line} ({problem}). " + (
        "Keys of one section begin in the same column, after spaces and not tabs, and have a colon "
        "and a blank; quote text with a colon or a bracket."
        if is_form
        else "Write each key once, and quote text that begins with a brace or an exclamation mark."
    )


def _fault_of_entry(entry: str) -> str:
    key, equals, value = entry.partition("=")
    if equals and _NAME.fullmatch(key):
        if not value.lstrip().startswith(("[", "{")):
            return ""
        try:
            yaml.safe_load(value)
        except yaml.YAMLError as error:
            problem = getattr(error, "problem", None) or "not valid YAML"
            return (
                f"--config {entry}: the value cannot be read ({problem}). Close its brackets, and "
                f"quote all of it for the shell."
            )
        return ""
    section, dot, name = key.partition(".")
    if dot and equals and _SECTION.fullmatch(section):
        for part in reversed(name.split(".")):
            value = f"{{{part}: {value}}}"
        return (
            f"--config {entry}: a key has no dots. Give a key of a section as "
            f'--config "{section}={value}".'
        )
    return (
        f"--config {entry}: is not of the form KEY=VALUE. Give such as --config corpus=mine, "
        "without blanks; a target stands before --config."
    )
