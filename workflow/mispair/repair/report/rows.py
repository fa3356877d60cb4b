"""Rows of the repair."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mispair.core.metrics import read_metrics
from mispair.evaluation.report.rows import scored
from mispair.report.tables import Rows, arm, origins
from mispair.towers.arms import REPAIR

OF_PARTS = {"neuron", "classname", "feature"}
"""Keys of rows that do not describe a whole arm."""


def rows(results: Mapping[str, Sequence[Path]], models: Mapping[str, Any]) -> Rows:
    """Return ledgers, the measures of each arm, and the differences between arms."""
    by_table: Rows = defaultdict(list)
    for path in results.get("ledger", []):
        keys, measured = _ledger(path, by_table, "repairs")
        by_table["repairs"] += [{**keys, **row} for row in measured]
    for path in results.get("tower_ledger", []):
        keys, measured = _ledger(path, by_table, "tower_repairs")
        draw = int(path.parent.name.removeprefix("draw~"))
        by_table["tower_repairs"] += [{**keys, **row, "seed": draw} for row in measured]
    for path in results.get("towers", []):
        measured, provenance = read_metrics(path)
        trained = provenance["trained"]
        keys = {"rule": trained["repair"], "scheme": trained["scheme"]}
        training = "{repair}, {scheme}~{rate}/draw~{draw}".format_map(trained)
        by_table["provenance"] += origins("repaired_towers", provenance, training)
        by_table["repaired_towers"] += [{**row, **keys} for row in measured]
    for path in results.get("replaced", []):
        by_table["repairs_compared"] += read_metrics(path)[0]
    for path in results.get("differences", []):
        by_table["repair_differences"] += read_metrics(path)[0]
    for kind in ("purity", "semantics", "zeroshot"):
        for path in results.get(kind, []):
            measured, provenance = read_metrics(path)
            keys = arm(provenance)
            keys["rule"] = keys.pop("start").removeprefix(REPAIR)
            if kind == "zeroshot":
                measured = scored(measured, provenance, path.parent.parent.name)
            by_table["provenance"] += origins(kind, provenance)
            by_table["repaired_arms"] += [
                {**keys, **row} for row in measured if not OF_PARTS & row.keys()
            ]
    return by_table


def _ledger(path: Path, by_table: Rows, table: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the keys and the rows of a ledger, and note its provenance and its examples."""
    measured, provenance = read_metrics(path)
    rate = float(provenance["nominal"])
    shown = provenance.pop("examples", [])
    held_out = provenance.pop("held_out", None)
    by_table["provenance"] += origins("repair", {**provenance, "rate": rate})
    keys = {"rule": provenance["repair"], "scheme": provenance["scheme"], "rate": rate}
    if table == "repairs":
        by_table["repair_examples"] += [{**keys, **example} for example in shown]
    if held_out and not held_out["pictures"]:
        measured.append({"metric": "held_out_cosine", "captions": "untested", "seed": 0, "n": 0})
    elif held_out:
        measured += [
            {"metric": "held_out_cosine", "captions": name, "value": held_out[name],
             "n": held_out["pictures"], "seed": 0}
            for name in ("captioner", "typical")
        ]  # fmt: skip
    return keys, measured
