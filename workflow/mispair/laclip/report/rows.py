"""Rows of models that are compared without fine-tuning."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mispair.core import files
from mispair.core.metrics import read_metrics
from mispair.evaluation.report.rows import scored
from mispair.report.tables import Rows, origins


def rows(results: Mapping[str, Sequence[Path]], models: Mapping[str, Any]) -> Rows:
    """Return the rows of zero-shot results, overlaps and origins of models.

    Results are in folders ``MODEL/untouched``; an origin is the ``config.json`` of a converted
    checkpoint, in a folder of its name.
    """
    by_table: Rows = defaultdict(list)
    specs = dict(models)
    for path in results.get("origin", []):
        name = path.parent.name
        specs[name] = files.read_json(path).get("mispair", {}) | specs.get(name, {})
    for name, spec in specs.items():
        by_table["provenance"] += origins("checkpoint", spec, name)
    for path in results.get("zeroshot", []):
        towers = path.parent.parent.name
        measured, provenance = read_metrics(path)
        by_table["provenance"] += origins("checkpoints", provenance)
        description = checkpoint(specs.get(towers, {}))
        by_table["checkpoints"] += [
            {**description, **row}
            for row in scored(measured, provenance, towers)
            if row["metric"] != "class_recall"
        ]
    for path in results.get("purity", []):
        towers = path.parent.parent.name
        measured, _ = read_metrics(path)
        description = {"towers": towers, **checkpoint(specs.get(towers, {}))}
        by_table["checkpoints"] += [
            {**description, **row} for row in measured if "neuron" not in row
        ]
    return by_table


def checkpoint(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels of a checkpoint in the report from the description in its folder.

    ``architecture`` is that of the image tower, such as ViT-B/16.
    """
    labels = {name: spec.get(name) for name in ("pretraining", "method", "recipe", "model")}
    name = "ViT-B-16" if labels["recipe"] == "laclip-cc" else spec.get("architecture") or ""
    match = re.search(r"(ViT-\w+?)[-/](\d+)", labels["model"] or name)
    return {**labels, "architecture": "/".join(match.groups()) if match else labels["model"]}
