"""The tidy tables of the report, and how rows become tables."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import pandas as pd

from mispair.core.metrics import read_metrics
from mispair.report import studies

Row = Mapping[str, Any]

ARMS = ("purity", "zeroshot", "pruning", "comparisons", "pairs")
"""Tables whose rows belong to arms of a scheme of corruption."""

PROMPTED = ("zeroshot", "pruning", "comparisons", "checkpoints")
"""Tables with rows that belong to a protocol of zero-shot classification."""

CAPTIONS, LINEAR_PROBE = "captions", "linear-probe"
"""Values that replace a protocol where no class is named in words."""

RENAMED = {"from": "bin_low", "to": "bin_high"}

DTYPES: dict[str, Any] = {
    "str": pd.StringDtype("python", na_value=float("nan")),
    "float64": "float64",
}
"""Types of columns in pandas; strings of Python make small tables a third faster than Arrow's."""

F = TypeVar("F", bound=Callable[..., Any])


def remembered(function: F) -> F:
    """Compute a function of tables and hashable arguments once for the same tables.

    A table is returned as a copy, which the caller may change.
    """

    @functools.wraps(function)
    def once(*args: Any, **named: Any) -> Any:
        kept = args[0].kept
        key = (function, *args[1:], *sorted(named.items()))
        if key not in kept:
            kept[key] = function(*args, **named)
        result = kept[key]
        return result.copy() if isinstance(result, pd.DataFrame) else result

    return cast("F", once)


class Tables:
    """All measurements of a run: each tidy table is an attribute of its name.

    Parameters
    ----------
    frames : mapping of str to DataFrame
        Tables by name; missing ones are empty.
    """

    def __init__(self, frames: Mapping[str, pd.DataFrame]) -> None:
        self.frames = {
            name: frames[name] if name in frames else tidy(name, []) for name in studies.tables()
        }

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name == "frames" or name not in self.frames:
            raise AttributeError(f"{name} is no table of a study")
        return self.frames[name]

    def replace(self, **frames: pd.DataFrame) -> Tables:
        """Return a copy in which the named tables are replaced."""
        return Tables({**self.frames, **frames})

    @functools.cached_property
    def schemes(self) -> list[str]:
        """Names of the schemes of corruption in the run, the main one first (`main_first`)."""
        names = {name for table in ARMS for name in self.frames[table]["scheme"].dropna().unique()}
        return main_first(names)

    @remembered
    def of_scheme(self, scheme: str | None = None) -> Tables:
        """Return the rows of one scheme, by default the main one; other tables are unchanged.

        The untouched model and the arm at rate 0, which exists once, belong to every scheme; so
        do rows without a scheme.
        """
        name = scheme or next(iter(self.schemes), None)
        return self.replace(**{table: _of_scheme(self.frames[table], name) for table in ARMS})

    @functools.cached_property
    def kept(self) -> dict[tuple[Any, ...], Any]:
        """Results of functions of these tables that are `remembered`."""
        return {}

    @functools.cached_property
    def main_zeroshot(self) -> pd.DataFrame:
        """The zero-shot numbers under their main protocol."""
        return of_protocol(self.zeroshot)

    def purity_of(self, start: str, metric: str) -> pd.DataFrame:
        """Return the rows of one measure of one start in `purity`."""
        return self.purity.iloc[self._rows("purity").get((start, metric), [])]

    def zeroshot_of(self, start: str, metric: str) -> pd.DataFrame:
        """Return the rows of one measure of one start in `main_zeroshot`."""
        return self.main_zeroshot.iloc[self._rows("main_zeroshot").get((start, metric), [])]

    @remembered
    def _rows(self, table: str) -> Mapping[Any, Any]:
        return getattr(self, table).groupby(["start", "metric"]).indices

    @property
    def protocols(self) -> list[str]:
        """Names of the protocols of the image-text study, the main one first."""
        return protocols(self.zeroshot, self.pruning)

    @remembered
    def of_protocol(self, protocol: str | None = None) -> Tables:
        """Return the rows of one protocol, by default the main one of each table.

        Rows that need no prompts (silhouette, linear probe, retrieval) stay.
        """
        return self.replace(**{name: of_protocol(self.frames[name], protocol) for name in PROMPTED})

    def study(self, key: str) -> bool:
        """Return whether anything was measured in a study."""
        declared = studies.study(key)
        return any(not self.frames[name].empty for name in declared.measures or declared.tables)


def main_first(schemes: Iterable[str]) -> list[str]:
    """Return the distinct names of schemes, the main one of the studies first, then by name."""
    return sorted(set(schemes), key=lambda name: (name != studies.main("scheme"), name))


def protocols(*tables: pd.DataFrame) -> list[str]:
    """Return the protocols in tables, the main one of the studies first, then by name.

    Retrieval and the linear probe are no protocols of classification by prompts.
    """
    names = {name for table in tables for name in table["protocol"].dropna().unique()}
    names -= {CAPTIONS, LINEAR_PROBE}
    return sorted(names, key=lambda name: (name != studies.main("protocol"), name))


def of_protocol(table: pd.DataFrame, name: str | None = None) -> pd.DataFrame:
    """Return the rows of a table under one protocol, or under its main one."""
    name = name or next(iter(protocols(table)), None)
    belongs = table["protocol"].isna() | table["protocol"].isin([name, CAPTIONS, LINEAR_PROBE])
    return table[belongs].reset_index(drop=True)


def _of_scheme(table: pd.DataFrame, name: str | None) -> pd.DataFrame:
    belongs = table["scheme"].isna() | (table["scheme"] == name) | (table["rate"] == 0)
    return table[belongs].reset_index(drop=True)


def read(sources: Mapping[str, Any]) -> Tables:
    """Read tables from CSV: `sources` are paths or open files by name.

    Unknown names are left out; missing ones become empty tables.
    """
    return Tables(
        {
            name: pd.read_csv(
                source, dtype=_dtypes(columns.types), keep_default_na=False,
                na_values={column: [""] for column in columns.names},
            )
            for name, columns in studies.tables().items()
            if (source := sources.get(name)) is not None
        }
    )  # fmt: skip


def read_csvs(paths: Iterable[Path]) -> Tables:
    """Read the CSV files among the files of ``reports/tables``, each table by its name."""
    return read({path.stem: path for path in paths if path.suffix == ".csv"})


def tidy(name: str, rows: Iterable[Row]) -> pd.DataFrame:
    """Return rows as the table of a name: its columns, its types, sorted.

    Other keys of the rows are left out; missing ones are missing values.
    """
    columns = studies.tables()[name]
    renamed = [{RENAMED.get(key, key): value for key, value in row.items()} for row in rows]
    table = pd.DataFrame(
        {
            column: pd.array([_cell(row.get(column), kind) for row in renamed], dtype=DTYPES[kind])
            for column, kind in columns.types.items()
        }
    )
    return table.sort_values([*columns.keys], kind="stable", ignore_index=True)


def _dtypes(types: Mapping[str, str]) -> dict[str, Any]:
    return {name: DTYPES[kind] for name, kind in types.items()}


def _cell(value: Any, kind: str) -> Any:
    missing = value is None or (isinstance(value, float) and value != value)
    if kind == "str":
        return None if missing else str(value)
    return float("nan") if missing else float(value)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts."""
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]


def where(table: pd.DataFrame, **columns: object) -> pd.DataFrame:
    """Return the rows whose columns have the given value, or one of several given values.

    Examples
    --------
    >>> where(pd.DataFrame({"arm": ["raw", "filtered"], "n": [1, 2]}), arm=("raw",), n=1)
       arm  n
    0  raw  1
    """
    for name, value in columns.items():
        if isinstance(value, str) or not isinstance(value, Collection):
            table = table[table[name] == value]
        else:
            table = table[table[name].isin(list(value))]
    return table


def mean_by(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the mean of ``value`` of each group as a table of `keys` and ``value``.

    A missing key (the untouched model has no rate) makes a group of its own.
    """
    means: pd.DataFrame = table.groupby(keys, dropna=False)[["value"]].mean().reset_index()
    return means


def everything(tables: Tables) -> pd.DataFrame:
    """Return all measurements in one table, with the name of their table in ``table``.

    Tables of texts alone have no measurements.
    """
    columns = studies.tables()
    frames = {name: table for name, table in tables.frames.items() if columns[name].values}
    types: dict[str, str] = {"table": "str"}
    for name in frames:
        types |= studies.tables()[name].types
    parts = [table.assign(table=name) for name, table in frames.items()]
    return pd.concat([part.reindex(columns=[*types]) for part in parts], ignore_index=True).astype(
        _dtypes(types)
    )


DETAILS = (
    "neuron", "bin_low", "bin_high", "classname", "feature", "label", "pair",
    "latent", "x", "y", "t",
)  # fmt: skip
"""Columns of rows that are parts of a measurement: neurons, bins, classes, points, moments."""


def summary(union: pd.DataFrame) -> pd.DataFrame:
    """Return `everything` without parts of measurements (most rows), and without empty columns."""
    parts = [column for column in DETAILS if column in union]
    whole: pd.DataFrame = union[union[parts].isna().all(axis=1)]
    return whole.dropna(axis="columns", how="all").reset_index(drop=True)


# From results to rows of the report's tables: what all studies share.


Rows = defaultdict[str, list[Row]]
"""Rows by the table that they belong to."""


def of_metrics(table: str, paths: Iterable[Path]) -> Rows:
    """Return the rows of metrics files as those of one table, and their provenance."""
    by_table: Rows = defaultdict(list)
    for path in paths:
        rows, provenance = read_metrics(path)
        by_table["provenance"] += origins(table, provenance)
        by_table[table] += rows
    return by_table


def arm(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``start``, ``scheme`` and ``rate`` of the projections that were measured."""
    origin = provenance.get("projection") or provenance
    rate = origin.get("rate")
    return {
        "start": origin.get("start"),
        "scheme": origin.get("scheme"),
        "rate": None if rate in (None, "") else float(rate),
    }


def origins(
    artefact: str, provenance: Mapping[str, Any], condition: str | None = None
) -> list[dict[str, Any]]:
    """Flatten a provenance to rows of key and text; nested keys are joined with dots.

    Lists of classes and templates are left out, because their fingerprints identify them.
    """
    measured = {"artefact": artefact, "condition": condition, **arm(provenance)}
    return [{**measured, "key": key, "text": text} for key, text in _flat(provenance)]


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in content.items():
        if key in ("classnames", "templates"):
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", "" if value is None else str(value)
