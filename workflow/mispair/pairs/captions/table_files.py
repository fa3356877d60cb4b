"""Files of caption tables that a configuration names, before any of them is read."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from mispair.core.files import UserError, matches, snapshot
from mispair.pairs.shards.sources import globs_of

KEY = "key"
"""The join by keys."""
JOIN = r"^(key|url|sha256|json:.+)$"
"""Regular expression of what joins a table to pairs."""
OBJECTS = ("jsonl", "json")
"""Forms of tables with an object a row."""
LAST = ("json", "txt")
"""Forms of files in a folder, next to tables of other forms, that are no tables."""
FORMS = (
    ".parquet, .csv, .tsv, .jsonl, .json or .txt (a list by position); text may be gzipped "
    "(.csv.gz)"
)
SHIFT = (
    "A list by position is only right if it has exactly one line for each key: one image that is "
    "missing shifts the captions of all images after it."
)


def table_files(key: str, given: str | Sequence[str]) -> list[Path]:
    """Return the files that paths, globs, brace patterns and folders name, in their order.

    Of a folder and of a glob, files that are no tables are left out. `key` is the setting that
    names the files, for messages.

    Raises
    ------
    UserError
        If a source matches no table or tables of several forms, or a file is named twice.
    """
    found = [path for source in ([given] if isinstance(given, str) else given)
             for path in _tables_of(key, source)]  # fmt: skip
    if not found:
        raise UserError(f"{key}: the list is empty. Name at least one table.")
    forms = sorted({form_of(path) for path in found})
    if forms == ["txt"] and len(found) > 1:
        raise UserError(
            f"{key}: names {len(found)} text files, such as {found[0].name}. Write the texts of "
            "several files into one table with columns key and caption; one text file alone is a "
            "list by position."
        )
    if len(forms) > 1:
        raise UserError(
            f"{key}: names {len(found)} tables of the forms {', '.join(forms)}. Name tables of one "
            "form."
        )
    repeated = sorted({str(path) for path in found if found.count(path) > 1})
    if repeated:
        raise UserError(f"{key}: {repeated[0]} is named more than once. Name it once.")
    return found


def _tables_of(key: str, source: str) -> list[Path]:
    if "://" in source:
        raise UserError(
            f"{key}: {source} is not on this machine. Fetch it first (`hf download`, curl), then "
            "give its path."
        )
    path = snapshot(Path(os.path.expanduser(source)))
    if path.is_file():
        form_of(path, f"{key}: ")
        return [path]
    if path.is_dir():
        found = _usable(path / name for name in sorted(os.listdir(path)))
        if found:
            return found
        raise UserError(
            f"{key}: the folder {path.absolute()} holds no table of captions. Name tables in "
            f"subfolders by a glob, such as {path}/**/*.parquet."
        )
    found = []
    for pattern in globs_of(key, str(path)):
        named = Path(pattern)
        matched = [named] if named.is_file() else _usable(matches(pattern))
        if not matched:
            raise UserError(
                f"{key}: there is no file {named.absolute()}. Give a table, a folder of tables, a "
                "glob, a brace pattern, or a list of these, on this machine."
            )
        found += matched
    return found


def _usable(paths: Iterable[Path]) -> list[Path]:
    """Return the tables among some paths; JSON and text files only if there are no others."""
    tables = [path for path in paths if path.is_file() and _is_table(path)]
    for form in reversed(LAST):
        tables = [path for path in tables if form_of(path) != form] or tables
    return tables


def _is_table(path: Path) -> bool:
    try:
        form_of(path)
    except UserError:
        return False
    return not path.name.startswith((".", "_"))


def form_of(table: Path, key: str = "") -> str:
    """Return the form of a caption table by its name: parquet, csv, tsv, jsonl, json or txt.

    `key` begins a message.

    Raises
    ------
    UserError
        If the name has another ending.
    """
    name = table.name.lower()
    plain = name.removesuffix(".gz")
    form = plain.rpartition(".")[2]
    if form in ("ndjson", "jsonlines"):
        form = "jsonl"
    if form not in ("parquet", "csv", "tsv", *OBJECTS, "txt") or (
        form == "parquet" and plain != name
    ):
        raise UserError(f"{key}{table}: a caption table ends in {FORMS}. Convert or rename it.")
    return form


def refuse_keys(table: Path, keys: Path | None) -> None:
    """Refuse a list of keys for a table that has keys, and a list of captions without keys.

    Raises
    ------
    UserError
        If so.
    """
    is_list = form_of(table) == "txt"
    if is_list and keys is None:
        raise UserError(
            f"{table}: holds captions without keys. {SHIFT} Give caption_keys, a text file with "
            "the key of each line, or a table with a column of keys (.parquet, .csv, .jsonl)."
        )
    if keys is not None and not is_list:
        raise UserError(
            f"{keys}: keys are given for a list of captions by position only, and {table} has keys "
            "of its own. Set caption_keys to null."
        )
