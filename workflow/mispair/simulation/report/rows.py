"""Rows of the simulation: made from the results of runs, and selected for claims and figures."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mispair.core.metrics import read_metrics
from mispair.report.tables import Row, Rows, origins

POINTS = frozenset(("neuron_alignment",))
"""Metrics that are points, not numbers; they have another table."""


def rows(results: Mapping[str, Sequence[Path]], models: Mapping[str, Any]) -> Rows:
    """Return the rows of all runs."""
    by_table: Rows = defaultdict(list)
    for path in results.get("simulation", []):
        measured, provenance = read_metrics(path)
        of_run = simulated(measured, provenance)
        condition = of_run[0]["condition"] if of_run else None
        by_table["provenance"] += origins("simulation", provenance, condition)
        for row in of_run:
            table = "simulation_points" if row["metric"] in POINTS else "simulation"
            by_table[table].append(row)
    return by_table


def simulated(rows: Iterable[Row], provenance: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Add the condition and settings of a simulation to its rows.

    ``kind`` is ``preset`` (figure 1 and arms), ``bridge`` (one ``switch`` of a preset thrown to the
    other preset's values), ``grid`` or ``scaling``; a condition without a name is its preset.
    ``features`` is d, ``image_noise_variance`` is per coordinate. ``caption_features`` is the mean
    total number of features of the images of S_w: the number of cases behind a probability of
    captions.
    """
    settings = provenance.get("settings") or {}
    keys = {
        "preset": settings.get("preset"),
        "features": settings.get("d"),
        "definition_main": settings.get("figure1_definition"),
        "image_noise_variance": _variance(settings),
        "caption_features": _caption_features(settings),
        **{name: settings.get(name) for name in ("misalignment", "encoder", "bias_schedule")},
    }
    results = []
    for row in rows:
        name = row.get("condition") or keys["preset"]
        results.append({**keys, **row, "condition": name, **_kind(str(name))})
    return results


def _kind(condition: str) -> dict[str, str | None]:
    kind, _, rest = condition.partition("~")
    if not rest:
        return {"kind": "preset", "switch": None}
    return {"kind": kind, "switch": rest if kind == "bridge" else None}


def _caption_features(settings: Mapping[str, Any]) -> float | None:
    names = ("low_quality_pairs", "d", "latent_density")
    if any(settings.get(name) is None for name in names):
        return None
    return math.prod(float(settings[name]) for name in names)


def _variance(settings: Mapping[str, Any]) -> float | None:
    noise, unit = settings.get("image_noise"), settings.get("noise_unit")
    if noise is None or unit is None:
        return None
    return float(noise) ** 2 if unit == "std" else float(noise)
