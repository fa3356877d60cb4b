"""Rows of the image-text study: of arms, of the corpus, and of its encoding."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from mispair.core import files
from mispair.core.metrics import read_metrics
from mispair.evaluation.report.rows import scored
from mispair.evaluation.semantics import BY_OVERLAP
from mispair.image_text import tower_replicates
from mispair.report.statistics import Effect, contrasts, effect_of_mean
from mispair.report.tables import Row, Rows, arm, origins

OF_ARMS = (
    "purity", "zeroshot", "pruning", "comparisons", "semantics", "corpus",
)  # fmt: skip
"""Kinds of results that are metrics of arms, or of the corpus, and the tables of their rows."""


def rows(results: Mapping[str, Sequence[Path]], models: Mapping[str, Any]) -> Rows:
    """Return the rows of all arms, and what became of the pairs.

    Results of arms are in folders ``TOWERS/ARM``. From tables with a row for each pair, only the
    metadata and the column of reasons are read.
    """
    by_table: Rows = defaultdict(list)
    for kind in OF_ARMS:
        for path in results.get(kind, []):
            measured, provenance = read_metrics(path)
            by_table["provenance"] += origins(kind, provenance)
            metadata = {"towers": path.parent.parent.name, **arm(provenance)}
            if kind == "zeroshot":
                measured = scored(measured, provenance, metadata["towers"])
            by_table[kind] += [{**metadata, **row} for row in measured]
    for path in results.get("pairing", []):
        metadata = _metadata(path)
        by_table["pairs"] += swaps(metadata, pq.read_metadata(path).num_rows)
        by_table["provenance"] += origins("pairing", {**metadata, "rate": metadata["nominal"]})
    lost = _reasons(results["excluded"]) if results.get("excluded") else None
    index = map(_metadata, results.get("index", []))
    by_table["pairs"] += counts(index, _reasons(results.get("rejected", [])), lost)
    for path in results.get("towers", []):
        by_table["towers"] += read_metrics(path)[0]
    if by_table["towers"]:
        by_table["tower_intervals"] += intervals(pd.DataFrame(by_table["towers"]))
    for path in results.get("encoding", []):
        by_table["encoding"] += encoded(path.stem, files.read_json(path))
    return by_table


def _metadata(path: Path) -> dict[str, str]:
    return files.parquet_metadata(pq.read_schema(path))


def _reasons(paths: Sequence[Path]) -> Counter[str]:
    reasons: Counter[str] = Counter()
    for path in paths:
        column = pq.read_table(path, columns=["reason"])["reason"].value_counts()
        reasons.update({row["values"]: row["counts"] for row in column.to_pylist()})
    return reasons


COUNTED = ("identical_text_swaps", "distinct_captions", "most_used_caption")
"""What a pairing's metadata counts, besides shares and similarities."""


def swaps(metadata: Mapping[str, str], pairs: int) -> list[dict[str, Any]]:
    """Return the numbers in a pairing's metadata on its corruption.

    Every share and similarity is a row, named by the scheme; so is each of `COUNTED`.
    """
    keys = {"scheme": metadata.get("scheme"), "rate": float(metadata["nominal"]), "n": pairs}
    names = [
        name for name in metadata if name.endswith(("_share", "_similarity")) or name in COUNTED
    ]
    return [
        {"metric": name, "value": _number(metadata[name]), **keys}
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

    Read = kept + rejected + excluded; policies of the whole corpus exclude pairs.

    Parameters
    ----------
    metadata : iterable of mappings
        Metadata of each index file.
    rejected, excluded : Counter of str
        Pairs by reason; None if no corpus was assembled, an empty one if it lost no pair.
    """
    metadata_of_group = list(metadata)
    totals = Counter[str]()
    for each in metadata_of_group:
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
    """Return the record of the encoding of a group of shards: each number is a row."""
    keys = {"group": group, "device": record.get("device"), "precision": record.get("precision")}
    return [
        {"metric": name, "value": value, **keys}
        for name, value in record.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


# Intervals of measures in which a pair of towers is the replicate.
#
# Seeds of the fine-tuning repeat a run of one pair of towers, so their intervals are about these
# towers alone. Here each pair gives one number, the mean over its seeds, and a t interval over
# pairs is about towers that the same recipe makes from other seeds.


UNIT = "pair of towers"
LEVEL, CHANGE = "level", "change"
"""Quantities: the value of an arm, and its difference from the lowest rate of the same start."""
ARM = [*tower_replicates.ARM]


def intervals(of_towers: pd.DataFrame, confidence: float = 0.95) -> list[Row]:
    """Return levels and changes of every measure, as means over pairs of towers with t intervals.

    Parameters
    ----------
    of_towers : DataFrame
        The table ``towers``: see `mispair.image_text.tower_replicates.values`.
    confidence : float
        1 − α.

    Returns
    -------
    list of dict
        ``quantity``, the keys of the arm, ``metric``, ``tower``, ``value``, ``low``, ``high``,
        ``p`` (two-sided, against zero; only for changes and correlations) and ``n``, the number of
        pairs of towers. A change is paired: the value at a rate − that at the lowest rate of the
        same start and towers.
    """
    rows: list[Row] = []
    for (metric, tower), of_metric in of_towers.groupby(["metric", "tower"], dropna=False):
        keys = {"metric": metric, "tower": _or_none(tower)}
        for of_arm, rows_of_arm in of_metric.groupby(ARM, dropna=False):
            effect = effect_of_mean(rows_of_arm["value"].tolist(), confidence, UNIT)
            p = effect.p if _is_correlation(str(metric)) else math.nan
            rows.append({"quantity": LEVEL, **_arm_of(of_arm), **keys, **_numbers(effect), "p": p})
        for of_arm, effect in _changes(of_metric, confidence):
            rows.append({"quantity": CHANGE, **_arm_of(of_arm), **keys, **_numbers(effect)})
    return rows


def _changes(
    of_metric: pd.DataFrame, confidence: float
) -> Iterator[tuple[tuple[Any, ...], Effect]]:
    of_rates = of_metric.dropna(subset=["rate"])
    for start, of_start in of_rates.groupby("start"):
        lowest = of_start["rate"] == of_start["rate"].min()
        for scheme in of_start.loc[~lowest, "scheme"].unique():
            # All schemes share the arm at the lowest rate if it is 0.
            series = of_start[(of_start["scheme"] == scheme) | lowest]
            by_rate = contrasts(series.rename(columns={"towers": "seed"}), confidence, UNIT)
            for rate, effect in by_rate.items():
                yield (start, scheme, rate), effect


def _is_correlation(metric: str) -> bool:
    of_four = (tower_replicates.RANK_CORRELATION, tower_replicates.OVER_ROTATED)
    return metric.endswith(BY_OVERLAP) or metric in of_four


def _arm_of(keys: Any) -> dict[str, Any]:
    return {name: _or_none(key) for name, key in zip(ARM, keys, strict=True)}


def _or_none(key: Any) -> Any:
    return None if pd.isna(key) else key


def _numbers(effect: Effect) -> dict[str, float]:
    return {name: getattr(effect, name) for name in ("value", "low", "high", "p", "n")}
