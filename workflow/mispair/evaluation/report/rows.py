"""Rows of measurements on models: the headline metric of each, and classes without images."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mispair.report.tables import Row

PARTS = frozenset(("neuron", "bin_low", "rotation", "row"))
"""Keys of purity rows that do not describe a whole projection."""


def scored(rows: Iterable[Row], provenance: Mapping[str, Any], towers: str) -> list[dict[str, Any]]:
    """Add to the rows of an evaluation the towers and the headline metric of their protocol.

    The silhouette needs no prompts: it becomes one row for each set and seed, without a protocol.
    Rows ``class_without_images`` name the classes without images.
    """
    headline = provenance.get("headline") or {}
    results = []
    silhouettes = set()
    for row in rows:
        of_set = {**row, "towers": towers}
        if row["metric"] == "silhouette":
            position = (row.get("evaluation_set"), row.get("seed"))
            if position in silhouettes:
                continue
            silhouettes.add(position)
            of_set |= {"protocol": None, "fingerprint": None}
        metric = headline.get(row.get("evaluation_set"), {}).get(of_set.get("protocol"))
        results.append({**of_set, "headline": metric})
    return results + _classes_without_images(results, provenance)


def _classes_without_images(
    rows: Sequence[Row], provenance: Mapping[str, Any]
) -> list[dict[str, Any]]:
    seen: dict[tuple[Any, Any], dict[str, Row]] = {}
    for row in rows:
        if row["metric"] == "class_recall":
            position = (row.get("evaluation_set"), row.get("protocol"))
            seen.setdefault(position, {})[row["classname"]] = row
    results = []
    for name, of_set in (provenance.get("protocols") or {}).items():
        for protocol, description in of_set.items():
            present = seen.get((name, protocol), {})
            like = next(iter(present.values()), {})
            keys = {key: like.get(key) for key in ("towers", "fingerprint", "headline")}
            keys |= {"evaluation_set": name, "protocol": protocol, "value": 0, "n": 0}
            results += [
                {**keys, "metric": "class_without_images", "classname": classname}
                for classname in json.loads(description.get("classnames") or "[]")
                if present and classname not in present
            ]
    return results
