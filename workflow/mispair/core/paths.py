"""Templates of paths of results, and the paths that follow from them.

The module ``paths`` of each package declares the template of each of its files once. Rules, the
report and the page of files in the documentation take them from there.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, product
from pathlib import Path, PurePath
from typing import Any

WILDCARD = re.compile(r"\{(\w+)\}")


def fill(template: str, **values: object) -> str:
    """Return a template with some of its wildcards filled; the others remain.

    Examples
    --------
    >>> fill("results/{corpus}/{scheme}~{rate}.json", corpus="scenes", rate=0)
    'results/scenes/{scheme}~0.json'
    """

    def filled(match: re.Match[str]) -> str:
        return str(values[match[1]]) if match[1] in values else match[0]

    return WILDCARD.sub(filled, template)


def every(template: str, tables: Mapping[str, Iterable[Any]]) -> list[str]:
    """Return a template's paths for all combinations of rows of the tables that it uses.

    A table has the names of its columns, and rows: values, or tuples where there are several
    columns. The first wildcard varies slowest. Wildcards of no table remain. A table without rows
    gives no path.

    Examples
    --------
    >>> every("{corpus}/{k}/{scheme}~{rate}", {"scheme rate": [("drop", 1)], "k": [2, 3]})
    ['{corpus}/2/drop~1', '{corpus}/3/drop~1']
    """
    wildcards = WILDCARD.findall(template)
    used = []
    for names, rows in tables.items():
        columns = names.split()
        if first := [wildcards.index(name) for name in columns if name in wildcards]:
            values = [row if len(columns) > 1 else (row,) for row in rows]
            used.append((min(first), [[*zip(columns, row, strict=True)] for row in values]))
    return [
        fill(template, **dict(chain.from_iterable(combination)))
        for combination in product(*(rows for _, rows in sorted(used, key=lambda table: table[0])))
    ]


def of_job(wildcards: Any, *templates: str) -> list[str]:
    """Return the paths of one job of Snakemake, from templates that have its wildcards."""
    return [fill(template, **dict(wildcards.items())) for template in templates]


def joined(*parts: str | Callable[[Any], list[str]]) -> Callable[[Any], list[str]]:
    """Return an input of Snakemake: several templates, and functions of a job's wildcards."""
    return lambda wildcards: [
        path
        for part in parts
        for path in (part(wildcards) if callable(part) else of_job(wildcards, part))
    ]


# Paths in commands that are no input or output of a job, with the ``prefix:`` of a module.


def folder_of_output(wildcards: Any, output: Sequence[str]) -> str:
    """Return the folder of a job's first output."""
    return str(PurePath(output[0]).parent)


def benchmarks_of_report(wildcards: Any, output: Sequence[str]) -> str:
    """Return the folder of benchmarks next to the folder of the report's first output."""
    return str(PurePath(output[0]).parent.with_name("benchmarks"))


def resume_state(wildcards: Any, output: Sequence[str]) -> str:
    """Return the resume state of a killed job: no output, so Snakemake does not remove it."""
    return str(PurePath(output[0]).with_suffix(".checkpoint"))


def pattern(template: str) -> str:
    """Return a template as a pattern of file names, with at most one ``*`` in each folder's name.

    Examples
    --------
    >>> pattern("results/{corpus}/{scheme}~{rate}/draw~{draw}/purity.json")
    'results/*/*/draw~*/purity.json'
    """
    return re.sub(r"\{[^/]*\}", "*", template)


def from_here(path: Path, project: Path | None = None) -> str:
    """Return a path relative to the folder that Snakemake runs in, if both are moved together.

    They are if the path is in that folder, or both are in the folder of a `project`. Snakemake
    compares the names of inputs, so a moved folder must not change them.
    """
    whole, here = Path(os.path.abspath(path)), Path.cwd()
    folders = [here] if project is None else [here, project]
    together = any(whole.is_relative_to(one) and here.is_relative_to(one) for one in folders)
    return os.path.relpath(whole) if together else str(whole)
