"""Rows of measurements on models: headline metrics, classes without images, published overlaps."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from mispair.evaluation.purity import directions_of_overlap
from mispair.report import published
from mispair.report.claims import THIRD
from mispair.report.tables import Row

# The published overlap of neurons as directions, and the smallest effect of interest on it.


def published_directions(scheme: str = "random") -> pd.Series:
    """Return the participation ratio that each published mean |cos| implies, by C_m."""
    table = published.purity_by_scheme()
    curve = table[table["scheme"] == scheme].set_index("shuffle_probability")["mean_abs_cosine"]
    directions: pd.Series = curve.map(
        lambda overlap: directions_of_overlap(overlap, published.NEURONS)
    )
    return directions


def smallest_overlap() -> float:
    """Return a third of the published change of the log participation ratio from C_m 0 to 0.1.

    It is the smallest published step that starts at right captions.

    Examples
    --------
    >>> round(smallest_overlap(), 3)
    0.157
    """
    curve = published_directions()
    return THIRD * abs(math.log(curve[0.1] / curve[0.0]))


def scored(rows: Iterable[Row], provenance: Mapping[str, Any], towers: str) -> list[dict[str, Any]]:
    """Add to the rows of an evaluation the towers and the headline metric of their protocol.

    The silhouette needs no prompts: it becomes one row for each set and seed, without a protocol.
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
    return results
