"""A run to compare: configuration, record and tables of its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from mispair.core import files
from mispair.core.files import UserError
from mispair.core.run_record import RECORD
from mispair.report import studies
from mispair.report.study import Columns, columns

CLAIMS = columns("claim* preset* | outcome* near* effect low high", compared=False)
"""Columns of the table of verdicts that are compared; earlier versions have no `near`."""

FILE = "run.json"
PLACES = (f"reports/{FILE}", FILE)


@dataclass(frozen=True)
class Run:
    """A run: its path, configuration, record, tables and claims (empty in earlier versions)."""

    name: str
    config: Mapping[str, Any]
    record: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    claims: pd.DataFrame


def read(path: Path) -> Run:
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
        raise UserError(
            f"{record_file}: is no record of a run (reports/{FILE} of a finished run is)."
        )
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
    return Run(str(path), config, record, tables, claims)


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


def _table(path: Path, columns: Columns) -> pd.DataFrame:
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
