"""Find the shards that a configuration names."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from pathlib import Path

from mispair.files import UserError

_BRACE = re.compile(r"^(.*?)\{([^{}]*)\}(.*)$")
_RANGE = re.compile(r"^(\d+)\.\.(\d+)$")


def resolve_shards(sources: str | Sequence[str]) -> list[Path]:
    """Return the tar shards that paths, globs, brace patterns and folders name, sorted.

    Parameters
    ----------
    sources : str or sequence of str
        Each a tar file, a glob (``cc3m/*.tar``), a brace pattern (``cc3m/{00000..00331}.tar``,
        ``{a,b}.tar``) or a folder of tar files.

    Raises
    ------
    UserError
        If a source matches nothing, a shard of a brace pattern is missing, or two sources name
        the same shard.
    """
    shards: list[Path] = []
    for source in [sources] if isinstance(sources, str) else sources:
        shards.extend(_matches(source))
    if not shards:
        raise UserError("shards: the list is empty. Name at least one tar shard, or `generated`.")
    repeated = sorted({str(shard) for shard in shards if shards.count(shard) > 1})
    if repeated:
        raise UserError(f"shards: {', '.join(repeated[:5])} is named more than once.")
    return sorted(shards)


def expand_braces(pattern: str) -> list[str]:
    """Expand ``{00..11}`` (keeping leading zeros) and ``{a,b}``, as a shell does.

    Examples
    --------
    >>> expand_braces("x/{08..10}.tar")
    ['x/08.tar', 'x/09.tar', 'x/10.tar']
    >>> expand_braces("{a,b}{1..2}")
    ['a1', 'a2', 'b1', 'b2']
    """
    match = _BRACE.match(pattern)
    if match is None:
        return [pattern]
    head, body, tail = match.groups()
    span = _RANGE.match(body)
    if span:
        first, last = span.groups()
        width = len(first) if first.startswith("0") else 0
        items = [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
    elif "," in body:
        items = body.split(",")
    else:
        raise UserError(f"shards: {pattern!r} has braces with neither '..' nor ',' in them.")
    return [head + item + rest for item in items for rest in expand_braces(tail)]


def _matches(source: str) -> list[Path]:
    path = Path(source).expanduser()
    if path.is_dir():
        found = sorted(path.glob("*.tar"))
        if not found:
            raise UserError(f"shards: the folder {source} holds no .tar file.")
        return found
    if path.is_file():
        return [path]
    if "{" in source:
        named = [Path(name).expanduser() for name in expand_braces(source)]
        missing = [str(shard) for shard in named if not shard.is_file()]
        if missing:
            raise UserError(
                f"shards: {source} names {len(named)} shards, of which {len(missing)} do not "
                f"exist, the first {missing[0]}. Correct the range or fetch the missing shards."
            )
        return named
    matched = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
    if not matched:
        raise UserError(
            f"shards: {source} matches no file (looked from {Path.cwd()}). Give a tar file, a "
            "glob, a brace pattern or a folder; relative paths start where snakemake runs."
        )
    return matched
