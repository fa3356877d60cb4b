"""Find the shards that a configuration names, and their writer's statistics."""

import json
import logging
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mispair.core.files import UserError, literal_folder, matches, snapshot
from mispair.pairs.shards.shards import IMAGE_EXTENSIONS

MOST_JOBS = 150
"""Number of groups of shards above which a scheduler is busier than the machines."""

MOST_NAMES = 1_000_000

MOST_PRINTED = 10
"""Largest number of ignored names in a folder or glob that are printed."""

log = logging.getLogger(__name__)

TABLES = ("parquet", "csv", "tsv", "jsonl", "arrow")
"""Endings of files that hold pairs in other forms."""

_PACKED = re.compile(r"\.(tar(\.\w+)?|t[bgxz]z2?|tzst)$", re.IGNORECASE)
_BRACE = re.compile(r"^(.*?)\{([^{}]*)\}(.*)$", re.DOTALL)
_RANGE = re.compile(r"^(\d+)\.\.(\d+)$")
_REMOTE = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+://|(https?|s3|gs|gcs|hf|ftp|pipe):)")


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
        If a source is not on this machine or matches nothing, a shard of a brace pattern is
        missing, a brace pattern names one shard only (a shell may have expanded it), or two shards
        are the same or have the same file name.
    """
    shards: list[Path] = []
    for source in [sources] if isinstance(sources, str) else sources:
        try:
            shards.extend(_matches(source))
        except OSError as error:
            raise UserError(
                f"shards: {source}: cannot be read ({error.strerror}). Give read access to it."
            ) from error
    if not shards:
        raise UserError("shards: the list is empty. Name at least one tar shard, or `generated`.")
    repeated = sorted(str(shard) for shard, times in Counter(shards).items() if times > 1)
    if repeated:
        raise UserError(f"shards: {', '.join(repeated[:5])} is named more than once. Name it once.")
    path_of: dict[str, Path] = {}
    for shard in shards:
        if not _is_text(shard.name):
            raise UserError(f"shards: the name of {str(shard)!r} is not UTF-8. Rename the file.")
        if shard.name in path_of:
            raise UserError(
                f"shards: {path_of[shard.name]} and {shard} have the same file name, by which the "
                "index names a shard. Rename one, or name the sources: shards: {a: ..., b: ...}."
            )
        path_of[shard.name] = shard
    return sorted(shards)


def resolve_named(sources: Mapping[str, str | Sequence[str]]) -> dict[Path, str]:
    """Return the tar shards of named sources, each with the name of its source, sorted by it.

    Raises
    ------
    UserError
        As `resolve_shards` for each source, or if there is none, or a shard is of two sources.
    """
    if not sources:
        raise UserError("shards: no source is named. Name at least one, or give `generated`.")
    named: dict[Path, str] = {}
    for source in sorted(sources):
        for shard in resolve_shards(sources[source]):
            if shard in named:
                raise UserError(
                    f"shards: {shard} is in source {named[shard]} and in {source}. Name it in one."
                )
            named[shard] = source
    return named


def _is_text(name: str) -> bool:
    """Return whether a file name is text; Python represents other bytes by lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def expand_braces(pattern: str) -> list[str]:
    """Expand ``{00..11}`` (keeping leading zeros) and ``{a,b}``, as a shell does.

    Raises
    ------
    UserError
        If the braces hold neither a list nor a range that rises, or are nested.

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
    if "{" in head:
        raise UserError(f"shards: {pattern!r} has nested braces. Write a list of sources.")
    span = _RANGE.match(body)
    if span:
        first, last = span.groups()
        number = int(last) - int(first) + 1
        if not 1 <= number <= MOST_NAMES:
            raise UserError(
                f"shards: the range {{{body}}} of {pattern!r} names {max(number, 0)} shards. It "
                f"has to rise, and to name at most {MOST_NAMES}."
            )
        padded = any(end.startswith("0") and len(end) > 1 for end in (first, last))
        width = max(len(first), len(last)) if padded else 0
        items = [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
    elif "," in body:
        items = body.split(",")
    else:
        raise UserError(
            f"shards: {pattern!r} has braces with neither '..' nor ',' in them. Write "
            "{00000..00331} or {a,b}."
        )
    return [head + item + rest for item in items for rest in expand_braces(tail)]


def globs_of(key: str, source: str) -> list[str]:
    """Return the globs of a brace pattern; braces in names of existing folders are no pattern.

    `key` is the setting in messages. `expand_braces` says what is refused.
    """
    folder, pattern = literal_folder(source)
    if "{" not in pattern:
        return [source]
    try:
        return [folder + name for name in expand_braces(pattern)]
    except UserError as error:
        raise UserError(str(error).replace("shards:", f"{key}:", 1)) from error


def _matches(source: str) -> list[Path]:
    if not source.strip() or "\0" in source:
        raise UserError(
            f"shards: {source!r} names nothing. Give a tar file, a glob, a brace pattern or a "
            "folder."
        )
    path = Path(os.path.expanduser(source))
    if path.is_dir():
        return _in_folder(snapshot(path))
    if path.is_file():
        _refuse_other_data([path], str(path))
        return [path]
    if _REMOTE.match(source):
        raise UserError(
            f"shards: {source} is not on this machine, and shards are read many times. Fetch them "
            "first (img2dataset, `hf download`, `aws s3 cp`, `gsutil cp`, curl), then give their "
            "folder."
        )
    if "{" in literal_folder(os.path.expanduser(source))[1]:
        return _in_braces(source)
    matched = _in_glob(path)
    if not matched and "::" in source:
        raise UserError(
            f"shards: {source} is no file. Write several as a list, [A, B], and not as A::B."
        )
    if not matched:
        raise UserError(
            f"shards: {path.absolute()} matches no file. Give a tar file, a glob, a brace pattern "
            "or a folder. Relative paths in a --configfile start at the folder of that file."
        )
    return matched


def _plain_files(paths: Sequence[Path]) -> list[Path]:
    """Return the plain files among some paths, and log the others.

    Raises
    ------
    UserError
        If a link leads nowhere.
    """
    taken, left = [], []
    for path in paths:
        if path.is_file():
            taken.append(path)
        elif path.is_symlink() and not path.exists():
            raise UserError(
                f"shards: {path} is a link to {os.readlink(path)}, which leads to no file. Correct "
                "the link, fetch the file, or remove the link."
            )
        else:
            left.append(f"{path} (a folder)" if path.is_dir() else f"{path} (no plain file)")
    _print_left(left)
    return taken


def _print_left(names: Sequence[str]) -> None:
    if names:
        more = f" and {len(names) - MOST_PRINTED:,} more" * (len(names) > MOST_PRINTED)
        log.warning("shards: not taken: %s%s", ", ".join(names[:MOST_PRINTED]), more)


def _in_folder(folder: Path) -> list[Path]:
    # Names that begin with a dot are a system's own, such as the ._NAME.tar of a Mac.
    names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    shards = _plain_files([folder / name for name in names if name.endswith(".tar")])
    packed = [name for name in names if not name.endswith(".tar") and _PACKED.search(name)]
    _print_left([f"{folder / name} (does not end in .tar)" for name in packed])
    if not shards:
        _refuse_other_data([folder / name for name in names], f"the folder {folder.absolute()}")
        raise UserError(
            f"shards: the folder {folder.absolute()} holds no .tar file. Shards in subfolders "
            f"are named by a glob ({folder}/**/*.tar); compressed ones are unpacked to .tar first."
        )
    return shards


def _in_glob(pattern: Path) -> list[Path]:
    matched = _plain_files(matches(str(pattern)))
    tars = [path for path in matched if path.suffix == ".tar"]
    if not tars:
        _refuse_other_data(matched, str(pattern))
    if tars and len(tars) < len(matched):
        unusual = next(path for path in matched if path.suffix != ".tar")
        raise UserError(
            f"shards: {pattern} matches {len(tars)} .tar files, but {unusual} too. End the pattern "
            "in .tar."
        )
    return matched


def _refuse_other_data(paths: Sequence[Path], source: str) -> None:
    """Refuse loose pictures, tables and texts by name: they are packed into shards first."""
    endings = Counter(path.suffix.lower().lstrip(".") for path in paths)
    inside = [path for path in paths if path.is_dir()][:MOST_PRINTED]
    for folder in inside:
        endings.update(name.rpartition(".")[2].lower() for name in os.listdir(folder))
    pictures = sum(endings[ending] for ending in IMAGE_EXTENSIONS)
    if pictures:
        raise UserError(
            f"shards: {source} names pictures (such as {_first(paths, IMAGE_EXTENSIONS)}), not tar "
            "shards. Name their folder by the key pairs, which takes pictures with captions."
        )
    if tables := [ending for ending in TABLES if endings[ending]]:
        raise UserError(
            f"shards: {source} names tables (.{', .'.join(tables)}), not tar shards. A table of "
            "picture paths, or Parquet with pictures, is named by the key pairs; captions for "
            "shards that you have, by captions; pictures of addresses are fetched by img2dataset."
        )


def _first(paths: Sequence[Path], endings: Sequence[str]) -> str:
    for path in paths:
        names = sorted(os.listdir(path)) if path.is_dir() else [path.name]
        for name in names:
            if name.rpartition(".")[2].lower() in endings:
                return repr(name)
    return "none"


def _in_braces(source: str) -> list[Path]:
    named = [Path(name) for name in globs_of("shards", os.path.expanduser(source))]
    matches = {name: [name] if name.is_file() else _in_glob(name) for name in named}
    missing = [str(name.absolute()) for name in named if not matches[name]]
    if missing:
        raise UserError(
            f"shards: {source} names {len(named)} shards, but {len(missing)} do not "
            f"exist, the first {missing[0]}. Correct the range or fetch the missing shards."
        )
    shards = [shard for name in named for shard in matches[name]]
    if len(shards) == 1:
        raise UserError(
            f"shards: the brace pattern {source} names one file only, {shards[0]}. If that is "
            "intended, name the file itself; else correct the pattern."
        )
    return shards


def describe(shards: Sequence[Path], groups: int) -> str:
    """Return what was matched, in one line, and a hint if it makes too many jobs for each step."""
    samples = expected_samples(shards)
    expected = (
        "samples are counted by index_shards"
        if samples is None
        else f"{samples:,} samples expected"
    )
    line = f"matched {len(shards):,} shard{'s' * (len(shards) != 1)}, {expected}"
    if groups > MOST_JOBS:
        line += (
            f"; they make {groups:,} jobs a step: index_shards.shards_per_job = "
            f"{math.ceil(len(shards) / MOST_JOBS)} would make at most {MOST_JOBS}"
        )
    return line


def expected_samples(shards: Sequence[Path]) -> int | None:
    """Return the number of samples that img2dataset wrote; None if it is unknown for a shard.

    The numbers are those of the ``NAME_stats.json`` next to each ``NAME.tar``.
    """
    total = 0
    for shard in shards:
        try:
            successes = _statistics(shard)["successes"]
        except (OSError, ValueError, KeyError):
            return None
        if type(successes) is not int or successes < 0:
            return None
        total += successes
    return total


def compare_counts(counted: Mapping[Path, int]) -> dict[str, int]:
    """Compare the samples counted in shards with how many img2dataset wrote into them.

    Returns, over the shards with a ``NAME_stats.json``, samples ``expected``, ``missing`` and
    ``surplus``. A warning names each shard that differs.
    """
    counts = {"expected": 0, "missing": 0, "surplus": 0}
    for shard, number in counted.items():
        expected = expected_samples([shard])
        if expected is None:
            continue
        counts["expected"] += expected
        counts["missing"] += max(expected - number, 0)
        counts["surplus"] += max(number - expected, 0)
        if number != expected:
            log.warning(
                "%s: holds %d samples, but %s counts %d. Fetch the shard again, or remove that "
                "file if the shard was changed on purpose.",
                *(shard, number, _statistics_file(shard).name, expected),
            )
    return counts


def downloads(shards: Sequence[Path]) -> dict[str, int]:
    """Return how often img2dataset's downloads of these shards ended with each status, sorted.

    Shards without a ``NAME_stats.json`` add nothing; a broken one adds nothing but a warning.
    """
    counts: Counter[str] = Counter()
    for shard in shards:
        try:
            statuses = _statistics(shard)["status_dict"]
            if not isinstance(statuses, dict) or not all(
                type(number) is int and number >= 0 for number in statuses.values()
            ):
                raise ValueError("status_dict does not map a status to a number")
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError) as error:
            log.warning(
                "%s: ignored, it cannot be read as img2dataset's statistics (%r)",
                _statistics_file(shard),
                error,
            )
            continue
        # An error's text may hold a lone surrogate; from here on it is valid text.
        for status, number in statuses.items():
            counts[status.encode("utf-8", "backslashreplace").decode()] += number
    return dict(sorted(counts.items()))


def _statistics_file(shard: Path) -> Path:
    return shard.with_name(f"{shard.stem}_stats.json")


def _statistics(shard: Path) -> dict[str, Any]:
    try:
        content = json.loads(_statistics_file(shard).read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    return content
