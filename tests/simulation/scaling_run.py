"""Made-up sweeps of the simulation over d: powers of d, and constants."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mispair.simulation.report.rows import simulated

DIMENSIONS = (20, 30, 50, 80, 120)
AS_STATED = {
    "failure raw": lambda d: 0.3, "failure filtered": lambda d: 4 / d,
    "residual_share": lambda d: 8 / d, "residual_share_pure": lambda d: 9 / d,
    "missing": lambda d: 1 / d, "wrong": lambda d: 0.5 / d, "unpurified": lambda d: 2 / d,
}  # fmt: skip
"""What the theorems state, with constants of our own."""

Laws = dict[str, Callable[[int], float]]


def sweep(laws: Laws, trials: int = 6, dimensions: tuple[int, ...] = DIMENSIONS,
          preset: str = "as-written", suffix: str = "") -> list[dict[str, Any]]:  # fmt: skip
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for d in dimensions:
        settings = {"preset": preset, "d": d, "low_quality_pairs": 1000, "latent_density": 2 / d,
                    "figure1_definition": preset, "misalignment": "partner"}  # fmt: skip
        here: list[dict[str, Any]] = []
        for trial in range(trials):

            def at(name: str, d: int = d) -> float:
                return laws[name](d) * (1 + 0.05 * rng.normal())

            for arm, residual in (("raw", "residual_share"), ("filtered", "residual_share_pure")):
                about = {"trained_on": arm, "trial": trial, "spurious_probability": 0.4}
                here += [
                    {**about, "metric": "accuracy", "definition": preset,
                     "value": 1 - at(f"failure {arm}")},
                    {**about, "metric": "purified_features", "definition": preset,
                     "value": d * (1 - at("unpurified"))},
                    {**about, "metric": residual, "value": at(residual)},
                    {**about, "metric": "mixed_neurons", "value": 0.5},
                ]  # fmt: skip
            for source in ("raw", "generated"):
                about = {"trained_on": "filtered", "trial": trial, "source": source,
                         "spurious_probability": 0.4}  # fmt: skip
                here += [
                    {**about, "metric": "caption_true", "value": 1 - at("missing")},
                    {**about, "metric": "caption_spurious", "value": at("wrong")},
                ]
        named = [{**row, "condition": f"scaling~{d}{suffix}"} for row in here]
        rows += simulated(named, {"settings": settings})
    return rows
