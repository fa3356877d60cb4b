"""Rows of models that are compared as they are."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mispair.core import files
from mispair.core.metrics import read_metrics
from mispair.evaluation.report.rows import PARTS, scored
from mispair.report.rows import Rows, origins


def rows(results: Mapping[str, Sequence[Path]], models: Mapping[str, Any]) -> Rows:
    """Return the rows of zero-shot results, overlaps and origins of models.

    Results lie in folders ``MODEL/untouched``; an origin is the ``config.json`` of a converted
    checkpoint, in a folder of its name.
    """
    found: Rows = defaultdict(list)
    specs = dict(models)
    for path in results.get("origin", []):
        name = path.parent.name
        specs[name] = files.read_json(path).get("mispair", {}) | specs.get(name, {})
    for name, spec in specs.items():
        found["provenance"] += origins("checkpoint", spec, name)
    for path in results.get("zeroshot", []):
        towers = path.parent.parent.name
        measured, provenance = read_metrics(path)
        found["provenance"] += origins("checkpoints", provenance)
        about = checkpoint(specs.get(towers, {}))
        found["checkpoints"] += [
            {**about, **row}
            for row in scored(measured, provenance, towers)
            if row["metric"] != "class_recall"
        ]
    for path in results.get("purity", []):
        towers = path.parent.parent.name
        measured, _ = read_metrics(path)
        about = {"towers": towers, **checkpoint(specs.get(towers, {}))}
        found["checkpoints"] += [
            {**about, **row} for row in measured if not PARTS.intersection(row)
        ]
    return found


def checkpoint(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels of a checkpoint in the report from what its folder says of it.

    ``architecture`` is that of the image tower, such as ViT-B/16: whatever else its name holds.
    """
    labels = {name: spec.get(name) for name in ("pretraining", "method", "recipe", "model")}
    name = "ViT-B-16" if labels["recipe"] == "laclip-cc" else spec.get("architecture") or ""
    found = re.search(r"(ViT-\w+?)[-/](\d+)", labels["model"] or name)
    return {**labels, "architecture": "/".join(found.groups()) if found else labels["model"]}
