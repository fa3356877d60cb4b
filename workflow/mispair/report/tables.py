"""The tidy tables of the report: their columns, and how measured rows become them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import pandas as pd

Row = Mapping[str, Any]

TEXT = frozenset((
    "table", "start", "tower", "metric", "evaluation_set", "classname", "fingerprint", "strategy",
    "ranked_by", "basis", "preset", "trained_on", "reason", "scheme", "key", "text", "artefact",
    "condition", "kind", "switch", "definition", "definition_main", "misalignment", "encoder",
    "bias_schedule", "prompts", "bias", "source", "status", "group", "device", "precision",
    "towers", "protocol", "headline", "normalised", "reference", "feature", "pretraining",
    "method", "recipe", "model", "architecture", "size", "task", "arm", "part", "shifted",
    "data_set", "activation", "schedule",
))  # fmt: skip
"""Columns of text; all others are numbers. A class called "7" or "null" stays what it is."""

STEPSIZE_RUN = ("part", "data_set", "activation", "width", "stepsize", "seed")
"""What tells a run of the stepsize study from all others."""

COLUMNS: dict[str, tuple[str, ...]] = {
    "purity": ("start", "scheme", "rate", "tower", "metric", "seed", "neuron", "bin_low",
               "bin_high", "value", "n", "low", "high", "deviation",
               "below", "rotations"),
    "purity_map": ("start", "scheme", "rate", "tower", "metric", "seed", "row", "column", "value",
                   "n"),
    "zeroshot": ("start", "scheme", "rate", "towers", "evaluation_set", "protocol", "metric",
                 "classname", "seed", "value", "n", "low", "high", "chance", "headline",
                 "fingerprint"),
    "pruning": ("start", "scheme", "rate", "towers", "evaluation_set", "protocol", "normalised",
                "basis", "strategy", "ranked_by", "metric", "seed", "draw", "k", "value", "n",
                "low", "high"),
    "comparisons": ("start", "scheme", "rate", "towers", "evaluation_set", "protocol", "metric",
                    "reference", "value", "n", "seeds", "error", "freedom", "low", "high", "p"),
    "exported": ("start", "scheme", "rate", "towers", "evaluation_set", "protocol", "strategy",
                 "ranked_by", "k", "metric", "value", "fingerprint"),
    "semantics": ("start", "scheme", "rate", "tower", "seed", "basis", "neuron", "metric",
                  "feature", "shuffle", "value", "n", "low", "high", "deviation", "below",
                  "rotations", "overlap", "p"),
    "bases": ("start", "scheme", "rate", "tower", "seed", "basis", "metric", "reference", "neuron",
              "feature", "value", "n", "low", "high", "deviation", "below", "rotations"),
    "checkpoints": ("pretraining", "architecture", "method", "recipe", "model", "towers",
                    "evaluation_set", "protocol", "tower", "metric", "value", "n", "low", "high",
                    "chance", "headline", "fingerprint"),
    "simulation": ("condition", "kind", "switch", "preset", "features", "misalignment", "encoder",
                   "bias_schedule", "image_noise_variance", "caption_features", "definition_main",
                   "spurious_probability", "trained_on", "metric", "definition", "source",
                   "trial", "seed", "tower", "prompts", "margin", "bias", "epoch", "step",
                   "bin_low", "bin_high", "value"),
    "simulation_points": ("condition", "kind", "spurious_probability", "trained_on", "metric",
                          "trial", "tower", "neuron", "label", "source", "pair", "latent",
                          "replaced", "x", "y"),
    "sufficiency": ("size", "tree", "flip", "seed", "task", "arm", "metric", "reference", "part",
                    "candidates", "per_class", "shifted", "test_flip", "value", "n", "low", "high"),
    "pairs": ("metric", "scheme", "rate", "reason", "value", "n"),
    "corpus": ("metric", "reason", "status", "bin_low", "bin_high", "value", "n"),
    "encoding": ("group", "device", "precision", "metric", "value"),
    "provenance": ("artefact", "condition", "start", "scheme", "rate", "key", "text"),
    "stepsize_runs": (*STEPSIZE_RUN, "step_on_weights", "steps", "points", "rises", "transition",
                      "settled", "diverged", "peak", "lowest_rise", "transition_risk",
                      "final_risk", "stable_threshold", "stable_threshold_paper",
                      "settled_threshold", "settled_threshold_paper", "stable_step",
                      "stable_step_paper", "settled_step", "settled_step_paper", "conservatism",
                      "margin_transition", "margin_stable", "margin_settled", "margin_final",
                      "smoothed_final", "auxiliary_final", "log_modified_settled",
                      "log_modified_final", "norm_falls", "auxiliary_falls", "modified_falls",
                      "margin_falls", "margin_drawdown", "order_breaks", "rate_lower",
                      "rate_upper_log", "separation", "bounded", "average_ratio",
                      "potential_ratio", "transition_bound", "stable_ratio", "least_time_risk",
                      "least_time_risk_early", "least_time_risk_late", "sharpness_start",
                      "critical_stepsize", "accuracy"),
    "stepsize_curves": (*STEPSIZE_RUN, "t", "risk", "potential", "margin", "norm", "accuracy",
                        "sharpness_ratio", "average_risk", "risk_bound", "average_potential",
                        "potential_bound", "neuron_plus", "neuron_minus"),
    "stepsize_speedups": (*STEPSIZE_RUN, "level", "steps_to_level", "monotone_stepsize",
                          "speedup"),
    "stepsize_acceleration": (*STEPSIZE_RUN, "schedule", "budget", "risk"),
    "pretraining": ("scheme", "rate", "seed", "tower", "basis", "evaluation_set", "protocol",
                    "metric", "value", "n", "low", "high", "chance"),
}  # fmt: skip
"""Columns of each table; rows are sorted by them in this order."""

ARMS = ("purity", "purity_map", "bases", "zeroshot", "pruning", "comparisons", "pairs")
"""Tables whose rows belong to arms of a scheme of corruption."""

PROMPTED = ("zeroshot", "pruning", "comparisons", "checkpoints")
"""Tables with rows that belong to a protocol of zero-shot classification."""

CAPTIONS, LINEAR_PROBE = "captions", "linear-probe"
"""What stands in place of a protocol where no class is named in words."""

VALUES = (
    "value", "n", "seeds", "error", "freedom", "low", "high", "deviation", "below", "rotations",
    "chance", "p", "overlap",
)  # fmt: skip
"""Columns that rows are not sorted by."""

RENAMED = {"from": "bin_low", "to": "bin_high"}

MAP = "overlap_map"
"""The metric of purity that is a heat map; it has a table of its own."""

POINTS = frozenset(("tsne", "neuron_alignment", "caption_feature"))
"""Metrics of the simulation that are points, not numbers; they have a table of their own."""


F = TypeVar("F", bound=Callable[..., Any])


def remembered(function: F) -> F:
    """Compute a function of tables and hashable arguments once for the same tables.

    What a caller changes in a table that it gets, it changes in a copy.
    """

    @functools.wraps(function)
    def once(*args: Any, **named: Any) -> Any:
        kept = args[0].kept
        key = (function.__qualname__, *args[1:], *sorted(named.items()))
        if key not in kept:
            kept[key] = function(*args, **named)
        result = kept[key]
        return result.copy() if isinstance(result, pd.DataFrame) else result

    return cast("F", once)


@dataclass(frozen=True)
class Tables:
    """All measurements of a run, one tidy table for each kind."""

    purity: pd.DataFrame
    purity_map: pd.DataFrame
    zeroshot: pd.DataFrame
    pruning: pd.DataFrame
    comparisons: pd.DataFrame
    exported: pd.DataFrame
    semantics: pd.DataFrame
    bases: pd.DataFrame
    checkpoints: pd.DataFrame
    simulation: pd.DataFrame
    simulation_points: pd.DataFrame
    sufficiency: pd.DataFrame
    pairs: pd.DataFrame
    corpus: pd.DataFrame
    encoding: pd.DataFrame
    provenance: pd.DataFrame
    stepsize_runs: pd.DataFrame
    stepsize_curves: pd.DataFrame
    stepsize_speedups: pd.DataFrame
    stepsize_acceleration: pd.DataFrame
    pretraining: pd.DataFrame

    @classmethod
    def of(cls, frames: Mapping[str, pd.DataFrame]) -> Tables:
        """Take the tables that are there; the others are empty."""
        return cls(**{name: frames.get(name, tidy(name, [])) for name in COLUMNS})

    @property
    def schemes(self) -> list[str]:
        """Names of the schemes of corruption in the run, the main one first.

        The main scheme is ``random`` where it was run, else the first by name.
        """
        names = {
            name for table in ARMS for name in getattr(self, table)["scheme"].dropna().unique()
        }
        return main_first(names)

    @remembered
    def of_scheme(self, scheme: str | None = None) -> Tables:
        """Return what belongs to one scheme, or to the main one: all else is as it is.

        The untouched model and the arm at rate 0, which exists once, belong to every scheme; so
        does what names no scheme.
        """
        name = scheme or next(iter(self.schemes), None)
        return replace(self, **{table: _of_scheme(getattr(self, table), name) for table in ARMS})

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

    def of_protocol(self, protocol: str | None = None) -> Tables:
        """Return what was measured under one protocol, or under the main one of each table.

        What needs no prompts (silhouette, linear probe, retrieval) names none, and stays.
        """
        return replace(
            self, **{name: of_protocol(getattr(self, name), protocol) for name in PROMPTED}
        )

    def study(self, key: str) -> bool:
        """Tell whether anything was measured in a study."""
        if key == "simulation":
            return not self.simulation.empty
        if key == "laclip":
            return not self.checkpoints.empty
        if key == "sufficiency":
            return not self.sufficiency.empty
        if key == "pretraining":
            return not self.pretraining.empty
        if key == "stepsize":
            return not self.stepsize_runs.empty
        return not (self.purity.empty and self.zeroshot.empty and self.pruning.empty)


def main_first(schemes: Iterable[str]) -> list[str]:
    """Return the distinct names of schemes, the main one first: random, else the first by name."""
    return sorted(set(schemes), key=lambda name: (name != "random", name))


def protocols(*tables: pd.DataFrame) -> list[str]:
    """Return the protocols in tables, the main one first: clip_benchmark, else the first by name.

    Retrieval and the linear probe are no protocols of classification by prompts.
    """
    names = {name for table in tables for name in table["protocol"].dropna().unique()}
    names -= {CAPTIONS, LINEAR_PROBE}
    return sorted(names, key=lambda name: (name != "clip_benchmark", name))


def of_protocol(table: pd.DataFrame, name: str | None = None) -> pd.DataFrame:
    """Return the rows of a table under one protocol, or under its main one."""
    name = name or next(iter(protocols(table)), None)
    own = table["protocol"].isna() | table["protocol"].isin([name, CAPTIONS, LINEAR_PROBE])
    return table[own].reset_index(drop=True)


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
    keys = [column for column in columns if column not in VALUES]
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


def everything(tables: Tables) -> pd.DataFrame:
    """Return all measurements in one table, with the name of their own in ``table``."""
    names = [name for name in COLUMNS if name != "provenance"]
    parts = [getattr(tables, name).assign(table=name) for name in names]
    columns = list(dict.fromkeys(["table", *(c for name in names for c in COLUMNS[name])]))
    return pd.concat([part.reindex(columns=columns) for part in parts], ignore_index=True).astype(
        {column: dtypes().get(column, "str") for column in columns}
    )


DETAILS = (
    "neuron", "bin_low", "bin_high", "row", "column", "classname", "feature", "label", "pair",
    "latent", "x", "y", "t",
)  # fmt: skip
"""Columns of rows that are parts of a measurement: neurons, bins, classes, points, moments."""


def summary(union: pd.DataFrame) -> pd.DataFrame:
    """Return `everything` without rows that are parts of a measurement, and without empty columns.

    Those are most of the rows; each kind of measurement has a table with all of its own.
    """
    parts = [column for column in DETAILS if column in union]
    whole: pd.DataFrame = union[union[parts].isna().all(axis=1)]
    return whole.dropna(axis="columns", how="all").reset_index(drop=True)
