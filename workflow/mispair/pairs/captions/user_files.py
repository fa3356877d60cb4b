"""A user's list of keys, in any form in which people save one, compared with keys of the shards."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, takewhile, zip_longest
from pathlib import Path
from typing import Any

from mispair.core.files import UserError, matches, snapshot
from mispair.core.words import composed, count
from mispair.pairs.shards.packed_keys import key_of_member
from mispair.pairs.shards.shards import (
    IMAGE_EXTENSIONS,
    MAX_TEXT_BYTES,
    ShardReader,
    clean_name,
    split_name,
)
from mispair.pairs.shards.sources import globs_of
from mispair.pairs.shards.tar_members import BrokenTarError, read_members
from mispair.pairs.sources.source import picture_key

# The files of a caption table that a configuration names, before any of them is read.

KEY = "key"
"""The join by keys."""

TRUSTED = "trusted (--checked)"
"""The setting of pairs that are known to be right, in messages: as in a file and as an option."""

JOIN = r"^(key|url|sha256|json:.+)$"
"""Regular expression of what joins a table to pairs."""

FORMS = ".parquet, .csv, .tsv, .jsonl or .txt (a list by position); text may be gzipped (.csv.gz)"

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
    if len(forms) > 1 or (forms == ["txt"] and len(found) > 1):
        raise UserError(
            f"{key}: names {len(found)} tables of the forms {', '.join(forms)}. Name tables of one "
            "form, and at most one text file by position."
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
        form_of(path)
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
    """Return the tables among some paths; text files only if there are no others."""
    tables = [path for path in paths if path.is_file() and _is_table(path)]
    return [path for path in tables if form_of(path) != "txt"] or tables


def _is_table(path: Path) -> bool:
    try:
        form_of(path)
    except UserError:
        return False
    return not path.name.startswith((".", "_"))


def form_of(table: Path) -> str:
    """Return the form of a caption table by its name: parquet, csv, tsv, jsonl or txt.

    Raises
    ------
    UserError
        If the name has another ending.
    """
    name = table.name.lower()
    plain = name.removesuffix(".gz")
    form = plain.rpartition(".")[2]
    if form == "ndjson":
        form = "jsonl"
    if form not in ("parquet", "csv", "tsv", "jsonl", "txt") or (
        form == "parquet" and plain != name
    ):
        raise UserError(f"{table}: a caption table ends in {FORMS}. Convert or rename it.")
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


COLUMN = "key"
_YES = (
    "yes y true t 1 1.0 ok okay right correct good match matches x fine clean pass trusted checked "
    "✓ ✔ + ja richtig oui vrai si sí"
)
_NO = (
    "no n false f 0 0.0 wrong incorrect bad mismatch fail failed noisy unsure unclear maybe "
    "unknown skip skipped todo ✗ ✘ - ? nein falsch non faux"
)
YES, NO = frozenset(_YES.split()), frozenset(["", *_NO.split()])
"""Verdicts on a pair, in lower case; an unsure or missing one is no yes."""
MEMBERS = 300
"""Members at the start of a shard whose names are compared with a list of keys."""
SAMPLES = 20
"""Samples at the start of a shard whose JSON is read before any job."""
FEW_BYTES = 1 << 28
"""Bytes of shards up to which all of their names are read before any job."""
LARGEST_UNKNOWN_SHARE = 0.05
"""Largest share of keys that may be neither in the corpus nor among the pairs it left out."""
SHOWN, MOST_LETTERS = 3, 80
"""Examples of such keys in a message, and letters of one."""

PACKED = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""First bytes of Excel's and LibreOffice's files, new and old."""
SPREADSHEET = (
    f"is a spreadsheet, which mispair does not read. Format the column {COLUMN} as text, so that "
    "keys keep their leading zeros, and save the sheet as CSV."
)
SEPARATOR_LINE = re.compile(r"^sep=(.)[,;\t|]*\s*$", re.IGNORECASE)
"""First line by which Excel states the separator of the cells."""
SEPARATORS = ",;\t|"
_QUOTED = re.compile(r"""^(["'])(.*)\1[,;]?$""")
_ROUNDED = re.compile(r"^\d[.,]\d+[eE]\+?\d+$")
_HAS_DIGIT = re.compile(r"\d").search
_FILE = re.compile(rf"\.({'|'.join((*IMAGE_EXTENSIONS, 'txt', 'json', 'cls'))})$", re.IGNORECASE)


def read_keys(path: Path, setting: str) -> list[str]:
    """Return the keys of a list, in its order.

    A list is text with a key a line (quoted or not, with or without a first line ``key``), or with
    a key and a verdict such as ``ok`` a line; a table with a column ``key``, separated by commas,
    semicolons or tabs; Parquet with such a column; or JSON: a list, or an object a line.

    Raises
    ------
    UserError
        If the file cannot be read, has no column of keys, or names no key.
    """
    try:
        keys = [*_keys(path, setting)]
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{setting}: {path} cannot be read ({reason}). Give a text file with a key a line, or "
            f"CSV or Parquet with a column {COLUMN}."
        ) from error
    if not keys:
        raise UserError(f"{setting}: {path} names no key. Give a key a line.")
    return keys


def _keys(path: Path, setting: str) -> Iterator[str]:
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix == ".parquet":
        return _of_parquet(path, setting)
    lines = lines_of_text(path, setting)
    if suffix == ".json":
        return _of_objects(json.loads("\n".join(lines)), path, setting)
    if suffix in (".jsonl", ".ndjson"):
        return _of_objects([json.loads(line) for line in lines if line.strip()], path, setting)
    header = next((line for line in lines if line.strip()), "")
    for delimiter in SEPARATORS:
        names = next(csv.reader([header], delimiter=delimiter))
        if (column := key_column(names)) is not None:
            rows = [row for row in csv.reader(lines, delimiter=delimiter) if row][1:]
            cells = zip(names, zip_longest(*rows, fillvalue=""), strict=False)
            _refuse_verdicts({**dict(cells), names[column]: ()}, path, setting)
            return filter(None, (row[column].strip() for row in rows if len(row) > column))
    if (judged := _judged_keys(lines, path, setting)) is not None:
        return filter(None, judged)
    if suffix in (".csv", ".tsv") or "\t" in header.strip():
        raise _without_column(path, setting, re.split(f"[{SEPARATORS}]", header))
    keys = [line for line in lines if line.strip()]
    if len(keys) == 1:  # all keys in one line
        line = re.sub(r"^\s*\[(.*)\]\s*$", r"\1", keys[0])  # a list of JSON or Python
        keys = [key for key in re.split(r"[,;]", line) if key.strip()]
    return map(_bare, keys)


def _judged_keys(lines: Sequence[str], path: Path, setting: str) -> list[str] | None:
    """Return the keys of lines that have a key and a verdict each, without names of columns.

    Blanks separate them as well, where no key has one. None if the lines are of another form.
    """
    filled = [line.strip(" ") for line in lines if line.strip()]
    for delimiter in (*SEPARATORS, " "):
        rows = csv.reader(filled, delimiter=delimiter, skipinitialspace=True)
        cells = [*takewhile(lambda row: len(row) == 2, rows)]
        if not cells or len(cells) < len(filled):
            continue
        columns = [[cell.strip() for cell in column] for column in zip(*cells, strict=True)]
        for key, verdict in ((0, 1), (1, 0)):
            judged, keys = ({*map(str.lower, columns[at])} for at in (verdict, key))
            if judged & YES and judged <= YES | NO and not keys <= YES | NO:
                first, *others = columns[key]
                if others and all(map(_HAS_DIGIT, others)) and not _HAS_DIGIT(first):
                    return None  # names of columns
                _refuse_verdicts({str(verdict + 1): columns[verdict]}, path, setting)
                return columns[key]
    return None


def lines_of_text(path: Path, setting: str) -> list[str]:
    """Return the lines of a user's file, in UTF-8 or UTF-16, with or without a mark of this.

    The file may be gzipped. Excel's first line ``sep=;`` becomes an empty one.

    Raises
    ------
    UserError
        If it is a spreadsheet.
    OSError, ValueError
        If it cannot be read, or has another encoding.
    """
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            content = gzip.decompress(content)
        except (EOFError, zlib.error) as error:
            raise ValueError(f"is cut off: {error}") from error
    if content.startswith(PACKED):
        raise UserError(f"{setting}: {path} {SPREADSHEET}")
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    lines = content.decode("utf-16" if wide else "utf-8-sig").splitlines()
    return ["", *lines[1:]] if lines and SEPARATOR_LINE.match(lines[0]) else lines


def _refuse_verdicts(columns: Mapping[str, Iterable[Any]], path: Path, setting: str) -> None:
    """Refuse a list with a column of verdicts of which some are no, or missing."""
    for name, values in columns.items():
        verdicts = ["" if value is None else str(value).strip().lower() for value in values]
        others = [verdict for verdict in verdicts if verdict in NO]
        both = any(map(str.isalpha, others)) and any(v in YES and v.isalpha() for v in verdicts)
        if both or (others and any(verdicts) and {*verdicts} <= YES | NO):
            raise UserError(
                f"{setting}: {path} has {others[0]!r} in the column {name!r} of "
                f"{count(len(others), 'key')}, and every key of the list counts. Leave out the "
                "rows that are not meant, and this column."
            )


def _bare(line: str) -> str:
    quoted = _QUOTED.match(line.strip())
    return quoted[2] if quoted else line.strip()


def key_column(names: Sequence[str]) -> int | None:
    """Return the position of the column of keys, in any case of letters; None if there is none."""
    cleaned = [name.strip().strip("\"'") for name in names]
    if COLUMN in cleaned:
        return cleaned.index(COLUMN)
    lowered = [name.lower() for name in cleaned]
    return lowered.index(COLUMN) if lowered.count(COLUMN) == 1 else None


def _of_parquet(path: Path, setting: str) -> Iterator[str]:
    # Not at the top: the plan of a workflow needs no tables.
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    column = key_column(schema.names)
    if column is None:
        raise _without_column(path, setting, schema.names)
    name = schema.names[column]
    few = [one.name for one in schema if one.name != name and _may_be_verdict(one.type)]
    _refuse_verdicts(pq.read_table(path, columns=few).to_pydict(), path, setting)
    values = pq.read_table(path, columns=[name])[name]
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not pa.types.is_null(values.type) and not _is_text(values.type):
        raise _no_text(path, setting, name, str(values.type))
    return (key for key in values.to_pylist() if key)


def _may_be_verdict(kind: Any) -> bool:
    return _is_text(kind) or str(kind).startswith(("bool", "int", "uint", "dictionary"))


def _is_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string", "string_view")


def _of_objects(rows: Any, path: Path, setting: str) -> Iterator[str]:
    if not isinstance(rows, list):
        raise UserError(f"{setting}: {path} is not a list of keys. Write one as JSON: a list.")
    tables = [row for row in rows if isinstance(row, Mapping)]
    names = [*tables[0]] if tables else []
    columns = {name: [row.get(name) for row in tables] for name in names if name.lower() != COLUMN}
    _refuse_verdicts(columns, path, setting)
    for row in rows:
        if isinstance(row, Mapping):
            column = key_column([*row])
            if column is None:
                raise _without_column(path, setting, [*row])
            row = [*row.values()][column]
        if not isinstance(row, str):
            raise _no_text(path, setting, COLUMN, type(row).__name__)
        yield row


def _without_column(path: Path, setting: str, names: Iterable[str]) -> UserError:
    shown = ", ".join(repr(name[:40]) for name in islice(names, 8))
    return UserError(
        f"{setting}: {path} has no column {COLUMN!r}, only {shown}. Name the column of keys so in "
        "the first line, or give a text file (.txt) with a key a line."
    )


def _no_text(path: Path, setting: str, column: str, kind: str) -> UserError:
    return UserError(
        f"{setting}: the column {column!r} of {path} holds values of type {kind}, not text. Write "
        "keys as text: 00012 and 12 differ."
    )


def as_in_corpus(keys: Iterable[str], corpus: Iterable[str]) -> dict[str, str]:
    """Return the key of the corpus for keys that differ from it in their form alone.

    Keys of pairs are compared byte by byte. A key that is none of the corpus stands for the one
    that has the same composed form of Unicode, or is the key of a picture of that path, or of the
    members of that name in a packed shard; unless several are.

    Examples
    --------
    >>> as_in_corpus(["cre\u0302pe", "b"], ["cr\u00eape", "a"]) == {"cre\u0302pe": "cr\u00eape"}
    True
    >>> as_in_corpus(["./a/b.v1.jpg", "a/b%2Ev2"], ["a/b.v1", "a/b.v2"])
    {'./a/b.v1.jpg': 'a/b.v1', 'a/b%2Ev2': 'a/b.v2'}
    """
    wanted = {key: forms_of(key) for key in keys}
    found: dict[str, list[str]] = {form: [] for forms in wanted.values() for form in forms}
    for key in corpus if wanted else ():
        if (form := composed(key)) in found:
            found[form].append(key)
    meant = {}
    for key, forms in wanted.items():
        of_corpus = next((found[form] for form in forms if found[form]), [])
        if len(of_corpus) == 1 and of_corpus != [key]:
            meant[key] = of_corpus[0]
    return meant


def forms_of(key: str) -> list[str]:
    """Return the composed forms that the key of a pair may have, the most certain first."""
    path = key.removeprefix("./")
    forms = (key, path, picture_key(path), key_of_member(path))
    return [*dict.fromkeys(map(composed, forms))]


def refuse_unknown(setting: str, path: Path, named: int, unknown: Sequence[str]) -> None:
    """Refuse a list of which more than `LARGEST_UNKNOWN_SHARE` is in no corpus.

    Parameters
    ----------
    setting, path : str, Path
        For the message.
    named : int
        Distinct keys of the list.
    unknown : sequence of str
        Those of them that the corpus does not have.

    Raises
    ------
    UserError
        If there are too many.
    """
    if len(unknown) > LARGEST_UNKNOWN_SHARE * named:
        shown = ", ".join(repr(key[:MOST_LETTERS]) for key in unknown[:SHOWN])
        raise UserError(
            f"{setting}: {path} names {len(unknown)} keys of {named} that the corpus does not "
            f"have, such as {shown}. Keys are those of the shards, or of the column key of "
            "results/pairs/CORPUS/corpus.parquet."
        )


def all_keys(shards: Mapping[str, str]) -> set[str] | None:
    """Return the keys of all shards if these are small and can be read, otherwise None.

    `shards` are those of `first_keys`.
    """
    try:
        if sum(os.path.getsize(shard) for shard in shards) > FEW_BYTES:
            return None
        return {key for shard, source in shards.items() for key in _keys_of(shard, source)}
    except (OSError, BrokenTarError):  # index_shards says why
        return None


def _keys_of(shard: str, source: str, members: int | None = None) -> Iterator[str]:
    prefix = f"{source}/" if source else ""
    with Path(shard).open("rb") as opened:
        for member in islice(read_members(opened), members):
            yield prefix + split_name(clean_name(member.name))[0]


def first_keys(shards: Mapping[str, str]) -> list[str]:
    """Return keys at the start of shards, as far as these can be read.

    `shards` are paths with the name of each shard's source (or nothing), which begins its keys.
    """
    keys: list[str] = []
    for shard, source in shards.items():
        with suppress(OSError, BrokenTarError):  # index_shards says why
            keys += dict.fromkeys(_keys_of(shard, source, MEMBERS))
    return keys


def first_sidecars(shards: Iterable[str]) -> Iterator[bytes]:
    """Yield img2dataset's JSON of the first samples of shards, as far as these can be read."""
    for shard in shards:
        with suppress(OSError, BrokenTarError), Path(shard).open("rb") as opened:
            reader = ShardReader(opened)
            for run in islice(reader.runs(), SAMPLES):
                for member in run.members:
                    if member.name.endswith(".json") and member.size <= MAX_TEXT_BYTES:
                        yield reader.read(member)


def refuse_unlike(setting: str, path: Path, keys: Sequence[str], examples: Sequence[str]) -> None:
    """Refuse keys whose form is none of this corpus: file names, or numbers without their zeros.

    Parameters
    ----------
    setting, path : str, Path
        For the message.
    keys : sequence of str
        Keys of the list, at least one.
    examples : sequence of str
        Keys of the corpus, as `first_keys` returns them.

    Raises
    ------
    UserError
        If the keys cannot be those of the shards.
    """
    if rounded := next((key for key in keys if _ROUNDED.match(key)), None):
        raise UserError(
            f"{setting}: {path} holds {rounded!r}, a number that a spreadsheet has rounded. Format "
            "the column as text and export the list again from its source."
        )
    of_corpus = {*examples}
    if not examples or not of_corpus.isdisjoint(keys):
        return
    files = [key for key in keys if _FILE.search(key)]
    if 2 * len(files) > len(keys):
        raise UserError(
            f"{setting}: {path} holds names of files such as {files[0]!r}, not keys. A key is the "
            f"name in the shard without its ending, such as {examples[0]!r}."
        )
    sources = {key.partition("/")[0] for key in examples if "/" in key}
    if len(sources) and not any("/" in key for key in keys) and all("/" in k for k in examples):
        raise UserError(
            f"{setting}: {path} holds keys such as {keys[0]!r}, but keys of this corpus begin with "
            f"the name of a source or folder, such as {examples[0]!r}. Write it before each key."
        )
    _refuse_lost_zeros(setting, path, keys, examples)


def refuse_other_form(
    setting: str, path: Path, keys: Sequence[str], examples: Sequence[str]
) -> None:
    """Refuse keys of a caption table in another form of Unicode, which would join no pair.

    Parameters
    ----------
    setting, path, keys, examples
        Those of `refuse_unlike`.

    Raises
    ------
    UserError
        If a key is that of a pair but for its form.
    """
    of_corpus = {*examples}
    meant = as_in_corpus([key for key in keys if key not in of_corpus], of_corpus)
    for key, of_pair in meant.items():
        if composed(key) != composed(of_pair):
            raise UserError(
                f"{setting}: {path} holds the key {key!r}, and a pair has {of_pair!r}: caption "
                "tables join equal keys only. Write those of the column key of "
                "results/pairs/CORPUS/corpus.parquet."
            )
        raise UserError(
            f"{setting}: {path} holds the key {key!a}, and a pair has {of_pair!a}: the same text "
            "in two forms of Unicode, which caption tables do not join. Write its keys with "
            f"unicodedata.normalize({'NFC' if of_pair == composed(key) else 'NFD'!r}, key)."
        )


def _refuse_lost_zeros(
    setting: str, path: Path, keys: Sequence[str], examples: Sequence[str]
) -> None:
    lengths = {len(key) for key in examples}
    padded = len(lengths) == 1 and all(key.isdecimal() for key in examples)
    if not padded or not any(key.startswith("0") for key in examples):
        return
    (length,) = lengths
    numbers = [re.sub(r"\.0+$", "", key) for key in keys]  # a spreadsheet's 12.0
    if all(key.isdecimal() and len(key) < length for key in numbers):
        raise UserError(
            f"{setting}: {path} holds keys such as {keys[0]!r}, but keys of this corpus have "
            f"{length} digits, such as {examples[0]!r}: their leading zeros are lost. Write the "
            f"column as text, filled with zeros to {length} digits."
        )
