"""Two runs, and their differences except numbers: configuration, data, code, versions, verdicts."""

import json
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from mispair.comparing.rerun import OTHER_BYTES
from mispair.core import files, run_record
from mispair.core.failures import clean
from mispair.core.files import UserError
from mispair.core.run_record import RECORD
from mispair.report import studies
from mispair.report.pages.records import origin
from mispair.report.paths import RUN
from mispair.report.studies import TidyColumns, columns
from mispair.report.table import Cell, Table, aligned, effect_cell, printed, whole
from mispair.report.tables import records

# A run to compare: configuration, record and tables of its report.

LIMITS = ("low", "high")
SHOWN = ("shown_low", "shown_high")
CLAIMS = columns(
    f"claim* preset* | outcome* near* effect {' '.join((*LIMITS, *SHOWN))}", compared=False
)
"""Columns of the table of verdicts that are compared; earlier versions lack `near` and `SHOWN`."""

FILE = Path(RUN).name
PLACES = (RUN, FILE)


@dataclass(frozen=True)
class ComparedRun:
    """A run: its path, configuration, record, tables and claims (empty in earlier versions)."""

    name: str
    config: Mapping[str, Any]
    record: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    claims: pd.DataFrame


def read(path: Path) -> ComparedRun:
    """Read a run.

    Parameters
    ----------
    path : Path
        Its folder, the folder of its report, or the ``run.json`` in it. The tables are next to that
        file.

    Raises
    ------
    UserError
        If a file is missing or broken.
    """
    record_file = _record_of(path)
    content = files.read_json(record_file)
    record = content.get(RECORD) if isinstance(content, dict) else None
    needed = {
        "mispair", "git", "versions", "platform", "steps", "data", "results", "unrecorded"
    }  # fmt: skip
    if not isinstance(record, dict) or not needed <= record.keys():
        raise UserError(f"{record_file}: is no record of a run ({RUN} of a finished run is).")
    folder = record_file.parent / "tables"
    if not folder.is_dir():
        raise UserError(
            f"{folder}: does not exist, so there are no numbers to compare. A run has its tables "
            f"next to {FILE}: copy both from the folder of the run."
        )
    config = {key: value for key, value in content.items() if key != RECORD}
    tables = {
        name: _table(folder / f"{name}.csv", columns) for name, columns in studies.tables().items()
    }
    claims = _table(folder / "claims.csv", CLAIMS)
    return ComparedRun(str(path), config, record, tables, claims)


def _record_of(path: Path) -> Path:
    if path.is_file():
        return path
    for file in PLACES:
        if (path / file).is_file():
            return path / file
    fault = f"has neither {' nor '.join(PLACES)}" if path.is_dir() else "does not exist"
    raise UserError(
        f"{path}: {fault}. Give the folder of a finished run, that of its report, or its {FILE}."
    )


def _table(path: Path, columns: TidyColumns) -> pd.DataFrame:
    """Read a table; a missing one is empty."""
    if not path.is_file():
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in columns.types.items()})
    try:
        empty = {column: [""] for column in columns.names}
        table = pd.read_csv(path, dtype=columns.types, keep_default_na=False, na_values=empty)
    except (ValueError, OSError) as error:  # pandas' own are ValueErrors
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"{path}: cannot be read as a table of a report ({reason}). Run `snakemake "
            "--forcerun gather_metrics` in the folder of the run, and copy it again."
        ) from error
    return table.reindex(columns=[*columns.names])


DIGITS = 12
"""Digits of a digest that are printed."""


def changes(a: ComparedRun, b: ComparedRun) -> list[Table]:
    """Return tables of both runs and their differences; one without rows means no difference."""
    return [
        Table("The two runs", ("", "A", "B"), _side_by_side(_origin(a), _origin(b), every=True)),
        Table("Configuration", ("key", "A", "B"), _side_by_side(_flat(a.config), _flat(b.config))),
        Table("Data", ("file or fingerprint", "A", "B"), _side_by_side(_data(a), _data(b))),
        Table("Code", ("step", "A", "B"), _side_by_side(_code(a), _code(b))),
        Table("Versions", ("of", "A", "B"), _side_by_side(_versions(a), _versions(b))),
        _devices(a, b),
        Table(
            "Files of results",
            ("folder", "the same bytes", "other bytes", "in A only", "in B only"),
            tuple(_results(a.record["results"], b.record["results"])),
        ),
        Table(
            "Verdicts that differ",
            ("claim", "preset", "A", "effect in A", "B", "effect in B"),
            tuple(_verdicts(a.claims, b.claims)),
        ),
    ]


def _side_by_side(
    a: Mapping[str, Cell], b: Mapping[str, Cell], *, every: bool = False
) -> tuple[tuple[Cell, ...], ...]:
    """Return a row for every key, or for those with different values."""
    keys = (key for key in dict.fromkeys([*a, *b]) if every or a.get(key) != b.get(key))
    return tuple((key, a.get(key), b.get(key)) for key in keys)


def _origin(run: ComparedRun) -> dict[str, Cell]:
    """Return the short provenance of a run."""
    return {"run": run.name, **{str(name): cell for name, cell in origin(run.record).rows}}


def _flat(config: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Return every key of a configuration, such as ``simulate.trials``, with its value."""
    values: dict[str, str] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            values |= _flat(value, f"{before}{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            values[f"{before}{key}"] = text
    return values


def _data(run: ComparedRun) -> dict[str, str]:
    names: dict[str, list[str]] = {}
    for what, text in run.record.get("fingerprints", []):
        names.setdefault(f"fingerprint: {what}", []).append(text)
    prints = {what: ", ".join(sorted(texts)) for what, texts in names.items()}
    return prints | {name: _facts(facts) for name, facts in run.record["data"].items()}


def _facts(facts: Mapping[str, Any]) -> str:
    digest = facts.get("sha256") or facts.get("sha256_of_samples", "")
    return f"{facts['bytes']:,} bytes, {digest[:DIGITS]}"


def _code(run: ComparedRun) -> dict[str, str]:
    return {name: ", ".join(step["code"]) for name, step in run.record["steps"].items()}


def _versions(run: ComparedRun) -> dict[str, str]:
    return {"mispair": run.record["mispair"], **run.record["versions"]}


def _devices(a: ComparedRun, b: ComparedRun) -> Table:
    """Name a difference of the types of CPU and GPU, with what it means for bytes."""
    names = (", ".join(sorted(run_record.devices(run.record))) or None for run in (a, b))
    rows = _side_by_side(*({"type of CPU or GPU": text} for text in names))
    remark = f"{OTHER_BYTES[0].upper()}{OTHER_BYTES[1:]}." if rows else ""
    return Table("Devices", ("", "A", "B"), rows, remark)


def _results(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterable[tuple[Cell, ...]]:
    """Count files by their folder below ``results``."""
    counts: dict[str, Counter[str]] = {}
    for name in sorted(a.keys() | b.keys()):
        if name in a and name in b:
            kind = "same" if a[name] == b[name] else "other"
        else:
            kind = "a" if name in a else "b"
        counts.setdefault("/".join(PurePosixPath(name).parts[:2]), Counter())[kind] += 1
    for folder, kinds in counts.items():
        yield folder, *(whole(kinds[kind]) for kind in ("same", "other", "a", "b"))


def _verdicts(a: pd.DataFrame, b: pd.DataFrame) -> Iterable[tuple[Cell, ...]]:
    """List the claims whose outcomes or marks differ, including claims of one run alone."""
    both = a.merge(b, "outer", ["claim", "preset"], suffixes=("_a", "_b"), sort=False)
    unmarked = both[["near_a", "near_b"]].isna().any(axis=1)  # an earlier version, or one run
    for run in "ab":
        marked = (both[f"near_{run}"] == "True") & ~unmarked
        both[f"outcome_{run}"] += marked.map({True: " (close to another verdict)", False: ""})
    texts = both[["preset", "outcome_a", "outcome_b"]].fillna("")
    changed = both.assign(**texts)[texts["outcome_a"] != texts["outcome_b"]]
    # At the level that judges the claim, if both runs have it.
    shown = LIMITS if any(of[[*SHOWN]].isna().all(axis=None) for of in (a, b)) else SHOWN
    low, high = shown
    for row in records(changed):
        yield (
            row["claim"], row["preset"] or None,
            row["outcome_a"] or None,
            effect_cell(row["effect_a"], row[f"{low}_a"], row[f"{high}_a"]),
            row["outcome_b"] or None,
            effect_cell(row["effect_b"], row[f"{low}_b"], row[f"{high}_b"]),
        )  # fmt: skip


# A comparison as text for a terminal, and as a page for a browser.


PAGE = Path(__file__).with_name("page.html.j2")

WIDEST = 80
"""Largest number of characters of a cell on a terminal."""


def text_of(tables: Sequence[Table]) -> str:
    """Return tables as aligned text without control characters."""
    return "\n\n".join(map(_text, tables))


def _text(table: Table) -> str:
    remark = [clean(table.remark, len(table.remark))] if table.remark else []
    if not table.rows:
        return "\n".join([f"{table.caption}: no difference", *remark])
    heads, *rows = ([_text_of(cell) for cell in row] for row in (table.heads, *table.rows))
    return "\n".join([table.caption, textwrap.indent(aligned(heads, rows), "  "), *remark])


def _text_of(cell: Cell) -> str:
    shown = clean(printed(cell).replace("\n", " "))
    return shown if len(shown) <= WIDEST else f"{shown[: WIDEST - 1]}…"


def html_of(tables: Sequence[Table], title: str) -> str:
    """Return tables as a page without links to other files."""
    from markupsafe import Markup

    from mispair.report.pages import picture

    template = picture.environment().from_string(PAGE.read_text(encoding="utf-8"))
    style = Markup(picture.source("style.css"))
    return template.render(tables=tables, title=title, style=style) + "\n"
