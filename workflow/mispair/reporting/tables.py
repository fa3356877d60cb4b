"""The tidy tables of the report: their columns, and how measured rows become them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

Row = Mapping[str, Any]

TEXT = frozenset((
    "table", "start", "tower", "metric", "evaluation_set", "classname", "fingerprint", "strategy",
    "ranked_by", "basis", "preset", "trained_on", "reason", "scheme", "key", "text", "artefact",
    "condition", "kind", "switch", "definition", "definition_main", "misalignment", "encoder",
    "bias_schedule", "prompts", "bias", "source", "status", "group", "device", "precision",
))  # fmt: skip
"""Columns of text; all others are numbers. A class called "7" or "null" stays what it is."""

COLUMNS: dict[str, tuple[str, ...]] = {
    "purity": ("start", "scheme", "rate", "tower", "metric", "seed", "rotation", "neuron",
               "bin_low", "bin_high", "value", "n", "low", "high"),
    "zeroshot": ("start", "scheme", "rate", "evaluation_set", "metric", "classname", "seed",
                 "value", "n", "low", "high", "chance", "fingerprint"),
    "pruning": ("start", "scheme", "rate", "evaluation_set", "basis", "strategy", "ranked_by",
                "metric", "seed", "draw", "k", "value", "n", "low", "high"),
    "simulation": ("condition", "kind", "switch", "preset", "features", "misalignment", "encoder",
                   "bias_schedule", "image_noise_variance", "definition_main",
                   "spurious_probability", "trained_on", "metric", "definition", "source",
                   "trial", "seed", "tower", "prompts", "margin", "bias", "epoch", "step",
                   "bin_low", "bin_high", "value"),
    "simulation_points": ("condition", "kind", "spurious_probability", "trained_on", "metric",
                          "trial", "tower", "neuron", "label", "x", "y"),
    "pairs": ("metric", "scheme", "rate", "reason", "value", "n"),
    "corpus": ("metric", "reason", "status", "bin_low", "bin_high", "value", "n"),
    "encoding": ("group", "device", "precision", "metric", "value"),
    "provenance": ("artefact", "condition", "start", "scheme", "rate", "key", "text"),
}  # fmt: skip
"""Columns of each table; rows are sorted by them in this order."""

ARMS = ("purity", "zeroshot", "pruning", "pairs")
"""Tables whose rows belong to arms of a scheme of corruption."""

RENAMED = {"from": "bin_low", "to": "bin_high"}

POINTS = frozenset(("tsne", "neuron_alignment"))
"""Metrics of the simulation that are points of a plane; they have a table of their own."""


@dataclass(frozen=True)
class Tables:
    """All measurements of a run, one tidy table for each kind."""

    purity: pd.DataFrame
    zeroshot: pd.DataFrame
    pruning: pd.DataFrame
    simulation: pd.DataFrame
    simulation_points: pd.DataFrame
    pairs: pd.DataFrame
    corpus: pd.DataFrame
    encoding: pd.DataFrame
    provenance: pd.DataFrame

    @classmethod
    def of(cls, frames: Mapping[str, pd.DataFrame]) -> Tables:
        """Take the tables that are there; the others are empty."""
        return cls(**{name: frames.get(name, tidy(name, [])) for name in COLUMNS})

    @property
    def schemes(self) -> list[str]:
        """Names of the schemes of corruption in the run, the main one first.

        The main scheme is ``random`` where it was run, else the first by name.
        """
        names = {name for table in ARMS for name in getattr(self, table)["scheme"].dropna()}
        return main_first(names)

    def of_scheme(self, scheme: str | None = None) -> Tables:
        """Return what belongs to one scheme, or to the main one: all else is as it is.

        The untouched model and the arm at rate 0, which exists once, belong to every scheme; so
        does what names no scheme.
        """
        name = scheme or next(iter(self.schemes), None)
        return replace(self, **{table: _of_scheme(getattr(self, table), name) for table in ARMS})

    def study(self, key: str) -> bool:
        """Tell whether anything was measured in a study."""
        if key == "simulation":
            return not self.simulation.empty
        return not (self.purity.empty and self.zeroshot.empty and self.pruning.empty)


def main_first(schemes: Iterable[str]) -> list[str]:
    """Return the distinct names of schemes, the main one first: random, else the first by name."""
    return sorted(set(schemes), key=lambda name: (name != "random", name))


def _of_scheme(table: pd.DataFrame, name: str | None) -> pd.DataFrame:
    own = table["scheme"].isna() | (table["scheme"] == name) | (table["rate"] == 0)
    return table[own].reset_index(drop=True)


def dtypes() -> dict[str, str]:
    """Return the type of every column, for reading the tables back."""
    names = {name for columns in COLUMNS.values() for name in columns}
    return {name: "str" if name in TEXT else "float64" for name in names}


def read(sources: Mapping[str, Any]) -> Tables:
    """Read tables back from CSV: `sources` gives the path, or an open file, of each by name.

    An unknown name is left out; a missing one becomes an empty table.
    """
    return Tables.of(
        {
            name: pd.read_csv(source, dtype=dtypes(), keep_default_na=False, na_values={
                column: [""] for column in COLUMNS[name]})
            for name, source in sources.items()
            if name in COLUMNS
        }
    )  # fmt: skip


def tidy(name: str, rows: Iterable[Row]) -> pd.DataFrame:
    """Return rows as one of the tables: its columns, its types, sorted.

    Parameters
    ----------
    name : str
        One of `COLUMNS`.
    rows : iterable of mappings
        Other keys are left out; missing ones are missing values.
    """
    columns = COLUMNS[name]
    renamed = [{RENAMED.get(key, key): value for key, value in row.items()} for row in rows]
    table = pd.DataFrame(
        {
            column: pd.array(
                [_cell(row.get(column), column) for row in renamed],
                dtype="str" if column in TEXT else "float64",
            )
            for column in columns
        }
    )
    keys = [column for column in columns if column not in ("value", "n", "low", "high", "chance")]
    return table.sort_values(keys, kind="stable", ignore_index=True)


def _cell(value: Any, column: str) -> Any:
    missing = value is None or (isinstance(value, float) and value != value)
    if column in TEXT:
        return None if missing else str(value)
    return float("nan") if missing else float(value)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts."""
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]


def mean_by(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the mean of ``value`` of each group as a table of `keys` and ``value``.

    A missing key (the untouched model has no rate) makes a group of its own.
    """
    means: pd.DataFrame = table.groupby(keys, dropna=False)[["value"]].mean().reset_index()
    return means


def arm(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``start``, ``scheme`` and ``rate`` of the projections that were measured."""
    origin = provenance.get("projection") or provenance
    rate = origin.get("rate")
    return {
        "start": origin.get("start"),
        "scheme": origin.get("scheme"),
        "rate": None if rate in (None, "") else float(rate),
    }


def simulated(rows: Iterable[Row], provenance: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Add to the rows of a simulation what its condition is and what its settings say.

    ``kind`` is ``preset`` (figure 1 and arms), ``bridge`` (one ``switch`` of a preset thrown to the
    other preset's values) or ``grid``; a condition without a name is its preset. ``features`` is d,
    ``image_noise_variance`` is per coordinate.
    """
    settings = provenance.get("settings") or {}
    about = {
        "preset": settings.get("preset"),
        "features": settings.get("d"),
        "definition_main": settings.get("figure1_definition"),
        "image_noise_variance": _variance(settings),
        **{name: settings.get(name) for name in ("misalignment", "encoder", "bias_schedule")},
    }
    found = []
    for row in rows:
        name = row.get("condition") or about["preset"]
        found.append({**about, **row, "condition": name, **_kind(str(name))})
    return found


def _kind(condition: str) -> dict[str, str | None]:
    kind, _, rest = condition.partition("~")
    if not rest:
        return {"kind": "preset", "switch": None}
    return {"kind": kind, "switch": rest if kind == "bridge" else None}


def _variance(settings: Mapping[str, Any]) -> float | None:
    noise, unit = settings.get("image_noise"), settings.get("noise_unit")
    if noise is None or unit is None:
        return None
    if unit == "std":
        return float(noise) ** 2
    return float(noise) / (float(settings["d1"]) if unit == "energy" else 1)


def origins(
    artefact: str, provenance: Mapping[str, Any], condition: str | None = None
) -> list[dict[str, Any]]:
    """Flatten a provenance to rows of key and text; nested keys are joined with dots."""
    about = {"artefact": artefact, "condition": condition, **arm(provenance)}
    return [{**about, "key": key, "text": text} for key, text in _flat(provenance)]


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", "" if value is None else str(value)


def swaps(metadata: Mapping[str, str], pairs: int) -> list[dict[str, Any]]:
    """Return what a pairing's metadata says of its corruption.

    Every share and similarity is a row, whatever the scheme calls it; so is the number of swaps
    that left the text as it was.
    """
    about = {"scheme": metadata.get("scheme"), "rate": float(metadata["nominal"]), "n": pairs}
    names = [
        name
        for name in metadata
        if name.endswith(("_share", "_similarity")) or name == "identical_text_swaps"
    ]
    return [
        {"metric": name, "value": _number(metadata[name]), **about}
        for name in dict.fromkeys(("swapped_share", "text_changed_share", *names))
        if name in metadata
    ]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def counts(
    metadata: Iterable[Mapping[str, str]],
    rejected: Counter[str],
    excluded: Counter[str] | None = None,
) -> list[dict[str, Any]]:
    """Return how many pairs were read, kept, rejected and excluded in all, and for which reason.

    Read = kept + rejected + excluded: what policies of the whole corpus took out is not kept.

    Parameters
    ----------
    metadata : iterable of mappings
        What each index file says of itself.
    rejected, excluded : Counter of str
        Pairs by reason; None if no corpus was put together, an empty one if it lost no pair.
    """
    found = list(metadata)
    totals = Counter[str]()
    for each in found:
        totals.update({name: int(each[name]) for name in ("read", "kept", "rejected")})
    if excluded is not None:
        totals.update(kept=-excluded.total(), excluded=excluded.total())
    rows: list[dict[str, Any]] = [
        {"metric": name, "value": value} for name, value in totals.items()
    ]
    for kind, tally in (("rejected", rejected), ("excluded", excluded or Counter[str]())):
        rows += [
            {"metric": f"{kind}_reason", "reason": reason, "value": count}
            for reason, count in tally.items()
        ]
    return rows


def encoded(group: str, record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the encoding of a group of shards says of itself: each number is a row."""
    about = {"group": group, "device": record.get("device"), "precision": record.get("precision")}
    return [
        {"metric": name, "value": value, **about}
        for name, value in record.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


def everything(tables: Tables) -> pd.DataFrame:
    """Return all measurements in one table, with the name of their own in ``table``."""
    names = [name for name in COLUMNS if name != "provenance"]
    parts = [getattr(tables, name).assign(table=name) for name in names]
    columns = list(dict.fromkeys(["table", *(c for name in names for c in COLUMNS[name])]))
    return pd.concat([part.reindex(columns=columns) for part in parts], ignore_index=True).astype(
        {column: dtypes().get(column, "str") for column in columns}
    )
