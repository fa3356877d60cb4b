"""The grid of conditions (noise × misalignment × bias schedule): where the conclusions hold."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from mispair.core.words import listing
from mispair.report import verdicts
from mispair.report.statistics import Interval, mean_interval
from mispair.report.tables import Tables
from mispair.simulation.report.runs import runs

CONCLUSIONS = {"purified_features": "purifies more", "accuracy": "classifies better"}
"""The two conclusions of the paper that every cell is asked about."""

FAILED = {"silenced_at_step": "silenced", "diverged_at_step": "diverged"}


@dataclass(frozen=True)
class Cell:
    """One condition of the grid at one C_s.

    ``gains`` holds the gain filtered − raw of each measure with its interval, ``outcomes`` whether
    the conclusion holds by the rule of differences; ``failed`` names arms that gave no result.
    """

    preset: str
    noise: str
    misalignment: str
    bias: str
    spurious_probability: float
    variance: float
    raw: dict[str, float]
    gains: dict[str, Interval]
    outcomes: dict[str, verdicts.Outcome]
    failed: str

    @property
    def position(self) -> tuple[str, str, float]:
        """The position of the cell, for any bias schedule."""
        return self.noise, self.misalignment, self.spurious_probability


def cells(tables: Tables, confidence: float = 0.95) -> list[Cell]:
    """Return the cells of the grid by noise, misalignment, bias schedule and C_s."""
    table = tables.simulation
    table = table[table["kind"] == "grid"]
    all_cells = [
        _cell(str(condition), float(str(probability)), of_cell, confidence)
        for (condition, probability), of_cell in table.groupby(
            ["condition", "spurious_probability"]
        )
    ]
    return sorted(all_cells, key=lambda cell: (cell.variance, cell.noise, cell.misalignment,
                                           cell.bias, cell.spurious_probability))  # fmt: skip


def _cell(condition: str, probability: float, rows: pd.DataFrame, confidence: float) -> Cell:
    parts = condition.split("~")[1:]
    noise = parts[0] if len(parts) == 3 else condition
    raw, gains, outcomes = {}, {}, {}
    for metric in CONCLUSIONS:
        wide = runs(rows, metric)
        raw[metric] = float(wide["raw"].mean())
        gains[metric] = mean_interval((wide["filtered"] - wide["raw"]).tolist(), confidence)
        outcomes[metric] = verdicts.decide_difference(gains[metric])[0]
    return Cell(
        str(rows["preset"].iloc[0]), noise, str(rows["misalignment"].iloc[0]),
        str(rows["bias_schedule"].iloc[0]), probability,
        float(rows["image_noise_variance"].iloc[0]), raw, gains, outcomes, _failed(rows),
    )  # fmt: skip


def _failed(rows: pd.DataFrame) -> str:
    trials = rows["trial"].nunique()
    lost = rows[rows["metric"].isin(FAILED)]
    texts = [
        f"{arm} {FAILED[str(metric)]} in {group['trial'].nunique()} of {trials}"
        for (metric, arm), group in lost.groupby(["metric", "trained_on"])
    ]
    return listing(texts) if texts else ""
